"""Loops over sets: texts lie in them in an order that each process chooses for itself."""

import pytest

from gpudoctor.lint.events.collective import Collective


@pytest.mark.parametrize(
    ("items", "unordered"),
    [
        ('{"a", "b"}', True),
        ('set(["a", "b"])', True),
        ('frozenset({"a", "b"})', True),
        ('{name for name in ("a", "b")}', True),
        ('enumerate({"a", "b"})', True),
        ('zip(range(2), {"a", "b"})', True),
        ('sorted({"a", "b"})', False),
        ('enumerate(sorted({"a", "b"}))', False),
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


def test_what_is_known_of_sets_is_known_of_what_is_made_of_them(paper):
    paper(
        """
        import torch
        first, second = frozenset(["a", "b"]), {"b", "c"}
        reveal("c" in first | second)  #: True
        reveal("c" in first & second)  #: False
        reveal("b" in first - second)  #: False
        reveal(len(first ^ second))  #: 2
        reveal(len(first.union(second, ["d"])))  #: 4
        reveal("c" in first | {torch.load("a.pt")})  #: 'c' in first | {torch.load('a.pt')}
        """
    )


def test_what_is_equal_lies_in_a_set_once(paper):
    paper(
        """
        import torch
        first, second = torch.load("a.pt"), torch.load("b.pt")
        reveal(len({1, 2, 1}))  #: 2
        reveal(len(set((3, 3))))  #: 1
        reveal(len({first}))  #: 1
        # Two files may hold the same: an assertion that they do is no sure error.
        for made in (len({first, second}), len(set([first, second])), len({each for each in (first, second)})):
            assert made == 1
        reveal(1)  #: 1
        kinds = set()
        kinds.add(first["kind"])
        reveal(len(kinds))  #: 1
        kinds.add(second["kind"])
        assert len(kinds) == 1
        reveal(1)  #: 1
        """
    )
