"""Loops over sets: texts lie in them in an order that each process chooses for itself."""

from __future__ import annotations

import pytest

from gpudoctor.lint.events.collective import Collective


@pytest.mark.parametrize(
    ("items", "unordered"),
    [
        ('{"a", "b"}', True),
        ('set(["a", "b"])', True),
        ('frozenset({"a", "b"})', True),
        ('{name for name in ("a", "b")}', True),
        ('sorted({"a", "b"})', False),
        ('["a", "b"]', False),
        ('{"a": 1, "b": 2}', False),
        ("{1, 2}", False),
    ],
)
def test_loops_over_sets(paper, items, unordered):
    found = paper(
        f"""
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
for each in {items}:
    dist.all_reduce(torch.ones(1))
"""
    )
    assert [event.loops[-1].unordered for event in found.events(Collective)][:1] == [unordered]
