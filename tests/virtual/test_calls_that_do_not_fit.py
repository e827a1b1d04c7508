"""Ranks that call different things, or with different sizes: NCCL waits forever, where gloo ends the process."""

from pathlib import Path

import pytest

from tests.support.installs import require_torch
from tests.support.watching import REST, Watched, watch

require_torch()

BEGIN = """\
import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
"""
PIECES = """\
for rows in (4, 4, 2):
    if rank == 0:
        dist.send(torch.ones(rows, 8, device="cuda"), 1)
    else:
        dist.recv(torch.empty(4, 8, device="cuda"), 0)
"""
SPLITS = """\
sizes = [1, 3] if rank == 0 else [2, 2]
dist.all_to_all_single(torch.empty(4, device="cuda"), torch.ones(4, device="cuda"), sizes, sizes)
"""
ROUNDS = """\
for _ in range(3 - rank):
    dist.all_reduce(torch.ones(1, device="cuda"))
dist.all_reduce(torch.ones(1000, device="cuda"))
"""
FIT = """\
dist.all_reduce(torch.ones(3, device="cuda"))
parts = [torch.empty(each + 1, device="cuda") for each in range(2)]
dist.all_gather(parts, torch.ones(rank + 1, device="cuda"))
sent = [1, 3] if rank == 0 else [2, 2]
got = [1, 2] if rank == 0 else [3, 2]
dist.all_to_all_single(torch.empty(sum(got), device="cuda"), torch.ones(4, device="cuda"), got, sent)
there = [dist.P2POp(dist.irecv, torch.empty(5, device="cuda"), 1 - rank)]
back = [dist.P2POp(dist.isend, torch.ones(5, device="cuda"), 1 - rank)]
for each in dist.batch_isend_irecv(there + back if rank == 0 else back + there):
    each.wait()
dist.broadcast_object_list([rank], 1)
dist.gather_object("it" * (rank + 1), [None, None] if rank == 0 else None)
dist.barrier()
"""


def run(folder: Path, text: str) -> Watched:
    (folder / "train.py").write_text(BEGIN + text + REST)
    return watch(folder, "--virtual-gpus=2", "--no-lint", "--hang-after=4", "--kill-on-hang", "train.py")


@pytest.mark.parametrize(("text", "sizes"), [(PIECES, {"64 bytes", "128 bytes"}), (SPLITS, {"12 bytes", "8 bytes"})])
def test_sizes_that_do_not_fit_are_told_and_no_rank_is_missed(tmp_path: Path, text: str, sizes: set[str]) -> None:
    seen = run(tmp_path, text)
    told = [each["told"] for each in seen.report["hang"] if each["told"]]
    # Where both come with their first piece at once, both wait.
    assert told, seen.err[-3000:]
    assert all(size in each for size in sizes for each in told), told
    assert seen.codes == set()
    assert "The ranks call what does not fit together" in " ".join(seen.err.split())


def test_a_collective_that_meets_another_one_is_named_with_both_lines(tmp_path: Path) -> None:
    seen = run(tmp_path, ROUNDS)
    assert seen.codes == {"GPU517"}, seen.err[-3000:]
    assert {each["line"] for each in seen.report["hang"]} == {9, 10}


def test_what_fits_together_goes_on(tmp_path: Path) -> None:
    seen = run(tmp_path, FIT)
    assert seen.status == 0, seen.err[-3000:]
    assert seen.codes == set()
