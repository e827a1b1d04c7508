"""What collectives leave in tensors: sums of averages, numbers that one rank has, and copies without a graph."""

from gpudoctor.lint.domain.tensor import Mark, MarkKind
from gpudoctor.lint.events.reporting import MetricShown
from gpudoctor.lint.events.training_step import Backward

START = """
import torch, torch.distributed as dist
import torch.nn.functional as F
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3).cuda())
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(3, 3)))
out = model(torch.randn(3, 3).cuda())
loss = F.cross_entropy(out, torch.zeros(3).cuda())
"""


def kinds(paper, text):
    """The marks in each number that is printed."""
    reports = paper(START + text).events(MetricShown)
    return [{mark.kind for mark in report.shards if isinstance(mark, Mark)} for report in reports]


SUM, ONE = MarkKind.SUM, MarkKind.ON_ONE_RANK


def test_sums_of_averages(paper):
    assert kinds(paper, "dist.all_reduce(loss)\nprint(loss)\nprint(loss.item() / 8)\nprint(loss * 0.1)") == [{SUM}]
    assert kinds(paper, "dist.all_reduce(loss)\ntotal = loss.item() + 1\nprint(total / len(loader))") == [{SUM}]
    assert kinds(paper, "x = torch.tensor(loss.item())\ndist.all_reduce(x)\nprint(x)") == [{SUM}]


def test_what_is_no_sum_of_averages(paper):
    assert kinds(paper, "dist.all_reduce(loss, op=dist.ReduceOp.AVG)\nprint(loss)") == []
    assert kinds(paper, "loss = loss / 8\ndist.all_reduce(loss)\nprint(loss)") == []
    assert kinds(paper, "x = loss.detach()\nx.div_(8)\ndist.all_reduce(x)\nprint(x)") == []
    assert kinds(paper, "dist.all_reduce(loss.data)\nloss.data.div_(8)\nprint(loss)") == []
    assert kinds(paper, "x = F.cross_entropy(out, out, reduction='sum')\ndist.all_reduce(x)\nprint(x)") == []


def test_numbers_that_one_rank_has(paper):
    assert kinds(paper, "dist.reduce(out, 0)\nprint(out)") == [{ONE}]
    assert kinds(paper, "dist.reduce(out, 0)\ndist.broadcast(out, 0)\nprint(out)") == []
    assert kinds(paper, "if loss > 3:\n    dist.reduce(out, 0)\nprint(out)") == []


def cut(paper, text):
    losses = [event.loss for event in paper(START + text).events(Backward)]
    return [any(mark.kind is MarkKind.WITHOUT_GRAPH for mark in loss.shards) for loss in losses]


def test_copies_without_a_graph(paper):
    gather = "parts = [torch.zeros_like(out) for _ in range(8)]\ndist.all_gather(parts, out)\n"
    assert cut(paper, gather + "(out @ torch.cat(parts)).sum().backward()") == [True]
    assert cut(paper, gather + "parts[0] = out\n(out @ torch.cat(parts)).sum().backward()") == [False]
    assert cut(paper, gather + "torch.cat([out, parts[1]]).sum().backward()") == [False]
    assert cut(paper, gather.replace("out)\n", "out.detach())\n") + "(out @ torch.cat(parts)).sum().backward()") == [
        False
    ]


def test_print_that_was_replaced_is_a_log(paper):
    text = "import builtins\ndist.reduce(out, 0)\nprint(out)\nbuiltins.print = lambda *a: None\nprint(out)"
    assert [report.how for report in paper(START + text).events(MetricShown)] == ["print", "log"]
