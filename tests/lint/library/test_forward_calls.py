"""What calling a model is: its forward, or what its class says."""

from gpudoctor.lint.domain.device import on_cpu
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward
from tests.lint.conftest import Execute

POLICY = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from unread import Data

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
    def forward(self, x):
        return self.layer(x)

class Policy({base}):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def __call__(self, x, names):
        {body}

model = Policy()
for x, names in DataLoader(Data(), 4):
    model(x, names).backward()
"""


def test_a_class_says_itself_what_calling_it_does(paper: Execute) -> None:
    program = paper(POLICY.format(base="nn.Module", body="return self.net(x).sum()"))
    called = {forward.module.label for forward in program.events(Forward)}
    assert called == {"self.net"}
    backward = program.events(Backward)[0]
    assert {each.module.label for each in program.program.calls_in_graph(backward)} == {"self.net"}


def test_it_may_call_its_forward_after_all(paper: Execute) -> None:
    program = paper(POLICY.format(base="Net", body="return super().__call__(x).sum()"))
    assert {forward.module.label for forward in program.events(Forward)} == {"model"}


def test_what_a_model_returns_is_handed_on_item_by_item(paper: Execute) -> None:
    program = paper("""
        import torch
        from torch import nn

        class Views(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)

            def forward(self, x):
                return library.views_of(self.layer(x))

        def distance(one, other, scale=2.0):
            return (one - other).square().mean() * scale

        distance(*Views()(torch.randn(4, 2))).backward()
        """)
    (backward,), (forward,) = program.events(Backward), program.events(Forward)
    assert forward.identity in backward.forwards


def test_an_engine_whose_settings_are_not_known_may_put_the_model_on_a_gpu(paper):
    found = paper(
        "import deepspeed, sys, torch\nnet = torch.nn.Linear(8, 1).to('cpu')\n"
        "engine, *_ = deepspeed.initialize(args=sys.argv, model=net)\nengine(torch.randn(4, 8).cuda())\n"
    )
    assert [on_cpu(each.device) for each in found.events(Forward)] == [False]
