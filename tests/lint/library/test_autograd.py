"""Functions with a backward of their own stand in the graph, and what they do is done."""

import pytest

from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.training_step import Backward, GradientsSwitched

SOURCE = """
import torch
import torch.distributed as dist
dist.init_process_group("nccl")
class Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = [torch.zeros_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(out, x)
        return {returned}
    @staticmethod
    def backward(ctx, *grads):
        return grads[dist.get_rank()]
model = torch.nn.Linear(2, 2).cuda()
z = Gather.apply(model(torch.randn(4, 2).cuda()))
loss = {loss}
loss.backward()
"""


@pytest.mark.parametrize(
    ("returned", "loss"),
    [
        ("torch.cat(out)", "z.mean()"),
        ("tuple(out)", "torch.cat(z).mean()"),
        ("out[0], out[1]", "(z[0] + z[1]).mean()"),
    ],
)
def test_the_graph_goes_through_it(paper, returned: str, loss: str):
    found = paper(SOURCE.format(returned=returned, loss=loss))
    [backward] = found.events(Backward)
    assert backward.complete
    assert len(backward.forwards) == 1
    assert [event.call for event in found.events(Collective)] == ["all_gather"]


MADE_ANEW = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
def scaling(by):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * by
        @staticmethod
        def backward(ctx, gradient):
            if dist.get_rank() == 0:
                dist.all_reduce(gradient)
            return scaling(1 / by).apply(gradient)
    return Scale
for by in (2.0, 3.0):
    scaling(by).apply(torch.ones(2, requires_grad=True)).sum().backward()
"""


def test_the_backward_of_a_class_that_is_made_anew_is_looked_at_once(paper):
    assert [event.call for event in paper(MADE_ANEW).events(Collective)] == ["all_reduce"]


def test_a_context_that_is_called_with_a_function_switches_gradients_off(paper):
    found = paper(
        """
        import torch
        def without_graphs(new=torch.__version__ >= "1.9"):
            return lambda function: (torch.inference_mode if new else torch.no_grad)()(function)
        @without_graphs()
        def evaluate():
            return torch.zeros(2, 2)
        """
    )
    assert [event.on for event in found.events(GradientsSwitched)] == [False]
