"""A script that starts its ranks itself is started once, and not by each rank of a launcher."""

from pathlib import Path

from gpudoctor.ranks.loopback import free_port
from tests.support.installs import require_torch
from tests.support.watching import watch

require_torch()

SPAWNS = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP


def work(rank, size):
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:PORT", rank=rank, world_size=size)
    torch.cuda.set_device(rank)
    model = DDP(torch.nn.Linear(4, 1).cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4, device="cuda")).mean().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(torch.cuda.device_count(),), nprocs=torch.cuda.device_count())
"""


def test_a_script_that_spawns_its_ranks_is_started_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SPAWNS.replace("PORT", str(free_port())))
    watched = watch(tmp_path, "--virtual-gpus", "2", "train.py")
    assert (watched.status, watched.codes) == (0, set())
    assert [rank["rank"] for rank in watched.report["ranks"]] == [0, 1]
