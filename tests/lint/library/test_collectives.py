"""Collectives: what they write to, what is wrong with their arguments, and who is in a group that is made."""

from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.flow.condition import Divergence

START = """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
rank = dist.get_rank()
x = torch.ones(2)
full = [torch.ones(2) for _ in range(4)]
"""


def flaws(paper, *calls):
    found = paper(START + "\n".join(calls))
    return [event.flaw for event in found.events(Collective)]


def test_required_arguments(paper):
    assert flaws(paper, "dist.broadcast(x)", "dist.broadcast(x, 0)", "dist.broadcast(x, group_src=0)") == [
        "lacks src", "", "",
    ]  # fmt: skip
    assert flaws(paper, "dist.all_gather(full)", "dist.all_gather(x, full)", "dist.all_gather(full, x)") == [
        "lacks tensor", "in wrong order", "",
    ]  # fmt: skip
    assert flaws(paper, "dist.all_reduce(1.5)", "dist.all_reduce(full)", "dist.all_reduce(tensor=x)") == [
        "no tensor", "no tensor", "",
    ]  # fmt: skip


def test_arguments_that_are_not_followed_may_be_there(paper):
    assert flaws(paper, "import company", "dist.broadcast(x, **company.options())") == [""]


def test_lists_that_one_rank_alone_may_give(paper):
    assert flaws(
        paper,
        "dist.gather(x, full)",
        "dist.gather(x, full if rank == 0 else None)",
        "dist.gather(x, [])",
        "dist.gather(x, dst=0)",
    ) == ["list on every rank", "", "", "list on no rank"]


def test_members_of_groups(paper):
    found = paper(
        START
        + """
first = rank // 8 * 8
dist.new_group(list(range(first, first + 8)))
dist.new_group([first, first + 1])
dist.new_group([rank])
dist.new_group([0, 1])
dist.new_group()
"""
    )
    own = [bool(event.members & Divergence.RANK) for event in found.events(Collective)]
    assert own == [True, True, False, False, False]


def test_subgroups_are_two_results(paper):
    found = paper(START + "mine, others = dist.new_subgroups(8)\ndist.all_reduce(x, group=mine)")
    assert [event.of_all_ranks for event in found.events(Collective)] == [True, False]


def test_a_place_in_a_grid_of_ranks_is_of_the_rank(paper):
    found = paper(
        """
        import torch
        import torch.distributed as dist
        dist.init_process_group("nccl")
        grid = torch.arange(8).view(4, 2)
        row, column = (grid == dist.get_rank()).nonzero().flatten().tolist()
        if row == 0:
            dist.barrier()
        """
    )
    assert found.event(Collective).rank_guards
