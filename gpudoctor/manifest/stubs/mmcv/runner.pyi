"""How ranks of OpenMMLab begin, before mmengine."""

import os

import torch

from gpudoctor.manifest.effects import followed

@followed()
def init_dist(launcher, backend="nccl", **kwargs):
    if launcher == "slurm":
        os.environ["RANK"] = os.environ["SLURM_PROCID"]
        os.environ["WORLD_SIZE"] = os.environ["SLURM_NTASKS"]
        os.environ["MASTER_ADDR"] = os.environ["SLURM_NODELIST"]
    torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    torch.distributed.init_process_group(backend=backend, **kwargs)
