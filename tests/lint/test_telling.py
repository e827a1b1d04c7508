"""Where a finding stands, and that one cause is one finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linting import Seen, lint

if TYPE_CHECKING:
    from pathlib import Path

LAUNCH = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
"""


def _of(code: str, folder: Path, text: str, **others: str) -> list[Seen]:
    for name, other in others.items():
        (folder / f"{name}.py").write_text(other)
    (folder / "train.py").write_text(LAUNCH + text)
    return [each for each in lint(folder / "train.py", folder=folder) if each.code in (code, "GPU002")]


def _line(folder: Path, text: str) -> int:
    return 1 + (folder / "train.py").read_text().splitlines().index(text)


def _tensors(count: int, ends: dict[int, str]) -> str:
    return "".join(f"dist.all_reduce(torch.zeros({n + 1})){ends.get(n, '')}\n" for n in range(count))


def test_one_cause_is_one_finding_with_its_other_places(tmp_path: Path) -> None:
    (found,) = _of("GPU510", tmp_path, _tensors(3, {}))
    first = _line(tmp_path, "dist.all_reduce(torch.zeros(1))")
    assert found.line == first
    assert {("train.py", first + 1), ("train.py", first + 2)} <= set(found.related)


def test_a_long_list_of_places_is_cut_and_counted(tmp_path: Path) -> None:
    (found,) = _of("GPU510", tmp_path, _tensors(12, {}))
    first = _line(tmp_path, "dist.all_reduce(torch.zeros(1))")
    shown = [line for _, line in found.related if line > first]
    assert shown == [*range(first + 1, first + 7)]


def test_a_comment_at_the_first_place_silences_them_all(tmp_path: Path) -> None:
    assert _of("GPU510", tmp_path, _tensors(3, {0: "  # gpudoctor: ignore[GPU510]"})) == []


def test_a_comment_at_another_place_silences_that_place(tmp_path: Path) -> None:
    (found,) = _of("GPU510", tmp_path, _tensors(3, {1: "  # gpudoctor: ignore[GPU510]"}))
    first = _line(tmp_path, "dist.all_reduce(torch.zeros(1))")
    assert ("train.py", first + 1) not in found.related
    assert ("train.py", first + 2) in found.related


def test_a_finding_of_another_file_names_a_place_in_the_one_that_was_asked_for(tmp_path: Path) -> None:
    helper = "import torch.distributed as dist\n\ndef save():\n    if dist.get_rank() == 0:\n        dist.barrier()\n"
    (found,) = _of("GPU501", tmp_path, "from helper import save\nsave()\n", helper=helper)
    assert (found.path, found.line) == ("helper.py", 5)
    assert ("train.py", _line(tmp_path, "save()")) in found.related


def test_the_call_under_the_test_is_told_and_not_what_lies_in_the_helper(tmp_path: Path) -> None:
    helper = "import torch.distributed as dist\n\ndef wait():\n    dist.barrier()\n"
    (found,) = _of("GPU501", tmp_path, "from helper import wait\nif dist.get_rank() == 0:\n    wait()\n", helper=helper)
    assert (found.path, found.line) == ("train.py", _line(tmp_path, "    wait()"))
    assert ("helper.py", 4) in found.related


def test_a_decorator_that_lets_rank_0_pass_is_not_the_place(tmp_path: Path) -> None:
    decorated = """
def main_only(function):
    def inner(*args):
        if dist.get_rank() == 0:
            return function(*args)
    return inner

@main_only
def report():
    dist.barrier()

report()
"""
    (found,) = _of("GPU501", tmp_path, decorated)
    assert found.line == _line(tmp_path, "    dist.barrier()")
