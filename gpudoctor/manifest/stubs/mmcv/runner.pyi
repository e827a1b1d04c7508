"""How ranks of OpenMMLab begin, before mmengine."""

import os

import torch

from gpudoctor.manifest.effects import followed

@followed()
def init_dist(launcher, backend="nccl", **kwargs):
    torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    torch.distributed.init_process_group(backend=backend, **kwargs)
