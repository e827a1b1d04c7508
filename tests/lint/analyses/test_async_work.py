"""Work in the background: when it is begun, waited for, and read too early."""

import pytest

from gpudoctor.lint.events.collective import Collective, ReadTooEarly, StartWork, WorkDone

START = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
x = torch.ones(2, device="cuda")
"""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("h = dist.all_reduce(x, async_op=True)\ny = x + 1\nh.wait()", [6]),
        ("h = dist.all_reduce(x, async_op=True)\nh.wait()\ny = x + 1", []),
        ("h = dist.all_reduce(x.data, async_op=True)\nx.item()", [6]),
        ("dist.all_reduce(x, async_op=True)\ndist.barrier()\nx.item()", []),
        ("if x.sum() > 1:\n    h = dist.all_reduce(x, async_op=True)\ny = x + 1", []),
        ("hs = [dist.all_reduce(x, async_op=True)]\nfor h in hs: h.wait()\ny = x + 1", []),
    ],
)
def test_numbers_that_are_read_too_early(paper, text, lines):
    found = paper(START + text)
    assert [event.location.line for event in found.events(ReadTooEarly)] == lines


def test_requests_of_two_ranks(paper):
    found = paper(START + "r = dist.isend(x, 1)\nr.wait()\ndist.irecv(x, 0)\ndist.send(x, 1)")
    assert [event.call for event in found.events(StartWork)] == ["isend", "irecv"]
    assert len(list(found.events(WorkDone))) == 1


@pytest.mark.parametrize(
    ("argument", "temporary"),
    [
        ("r.clone()", True),
        ("r.detach().clone()", True),
        ("r / 2", True),
        ("torch.tensor(r.item()).cuda()", True),
        ("torch.zeros(1).cuda()", False),
        ("r.detach().view(2)", False),
        ("r", False),
        ("own(r)", False),
    ],
)
def test_copies_that_nobody_else_has(paper, argument, temporary):
    text = "r = torch.randn(2, device='cuda')\ndef own(t):\n    return t.clone()\n"
    found = paper(START + text + f"dist.all_reduce({argument})")
    assert [event.temporary for event in found.events(Collective)] == [temporary]


def test_tensors_on_the_cpu(paper):
    text = "c = torch.ones(1)\ndist.all_reduce(c)\ndist.all_reduce(c.cuda())\ndist.all_gather_object([None], c)"
    found = paper(START + text)
    assert [len(event.on_cpu) for event in found.events(Collective)] == [1, 0, 0]
