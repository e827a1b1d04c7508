"""What is known of a model when it is called: its mode, where it was made, and what its own `forward` changes."""

import pytest

from gpudoctor.diagnostic import Finding, Location, Related, Severity
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.results.merge import merged

MODES = {
    "as it was made": ("", True),
    "evaluating": ("net.eval()", False),
    "training again": ("net.eval(); net.train()", True),
    "a flag that is not known": ("net.train(company.flag())", None),
    "loaded by Hugging Face": ("net = transformers.AutoModel.from_pretrained('x')", None),
    "a copy": ("net = copy.deepcopy(net.eval())", False),
}
SET_UP = """
    import copy, company, torch, transformers, torch.nn as nn
    net = nn.Linear(2, 2)
    {lines}
    net(torch.zeros(2))
    """


@pytest.mark.parametrize(("lines", "training"), MODES.values(), ids=MODES)
def test_the_mode_of_a_forward(paper, lines: str, training: bool | None):
    assert {event.training for event in paper(SET_UP.format(lines=lines)).events(Forward)} == {training}


def test_layers_are_made_where_they_are_told_to_be(paper):
    found = paper("""
        import torch, torch.nn as nn, company
        x = torch.zeros(2)
        nn.Linear(2, 2)(x)
        nn.Linear(2, 2, device="cuda")(x)
        nn.Linear(2, 2, device=None)(x)
        nn.Linear(2, 2, **company.settings)(x)
        """)
    places = [str(event.device.single) for event in found.events(Forward)]
    assert ["cuda" in place for place in places] == [False, True, False, False]
    assert "Unknown" in places[-1]


def test_flags_that_forward_sets_are_not_known_after_it(paper):
    paper("""
        import torch, torch.nn as nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
                self.full, self.width = False, 2
            def forward(self, x):
                self._note()
                return self.layer(x)
            def _note(self):
                self.full = True
        net = Net()
        reveal((net.full, net.width))  #: (False, 2)
        net(torch.zeros(2))
        reveal((net.full, net.width))  #: (unknown, 2)
        """)


def test_items_of_a_list_are_wrapped_once(paper):
    found = paper("""
        import os, torch.nn as nn
        from torch.nn.parallel import DistributedDataParallel as DDP
        models = [nn.Linear(2, 2) for _ in range(int(os.environ["FOLDS"]))]
        for i in range(len(models)):
            models[i] = DDP(models[i])
        """)
    assert {getattr(event.inner, "kind", None) for event in found.events(Wrap)} == {None}


@pytest.mark.parametrize(
    ("given", "shares"),
    [("", False), (", training_data=[1]", False), (", mpu=company.mpu", True), (", **company.settings", True)],
)
def test_deepspeed_leaves_loaders_alone(paper, given: str, shares: bool):
    found = paper(f"""
        import company, deepspeed, torch, torch.nn as nn
        engine, *rest = deepspeed.initialize(model=nn.Linear(2, 2), config={{}}{given})
        engine.backward(engine(torch.zeros(2)).sum())
        """)
    assert [event.shares_data for event in found.events(UseManaged)] == [shares]
    assert [event.managed for event in found.events(Backward)] == ["deepspeed"]


@pytest.mark.parametrize(
    ("given", "kind"),
    [("", WrapperKind.DDP), ("fsdp_plugin=plugin", WrapperKind.PREPARED), ("**plugin", WrapperKind.PREPARED)],
)
def test_the_wrapper_of_accelerate_depends_on_its_plugins(paper, given: str, kind: WrapperKind):
    found = paper(f"""
        import company, torch, torch.nn as nn, accelerate
        plugin = company.plugin
        model = accelerate.Accelerator({given}).prepare(nn.Linear(2, 2))
        model(torch.zeros(2))
        """)
    assert [getattr(event.module, "kind", None) for event in found.events(Forward)] == [kind]


def test_a_place_that_another_finding_names_is_not_told_again():
    def finding(line: int, *related: int) -> Finding:
        places = tuple(Related("too", Location("train.py", each)) for each in related)
        return Finding("GPU801", "wait", Severity.PERF, "It waits.", Location("train.py", line), "Do not.", places)

    assert [each.location.line for each in merged([finding(3, 5, 7), finding(5, 7)])] == [3]
    assert [each.location.line for each in merged([finding(3, 5), finding(5, 3)])] == [3, 5]


def test_a_copy_of_a_model_that_may_be_wrapped_is_a_copy(paper):
    found = paper("""
        import copy, company, torch, torch.nn as nn
        net = nn.Linear(2, 2)
        model = nn.DataParallel(net)
        ema = copy.deepcopy(model.module if company.wrapped(model) else model)
        ema(torch.zeros(2))
        model(torch.zeros(2))
        """)
    *copies, original = (event.module for event in found.events(Forward))
    assert {copied.label for copied in copies} == {"ema"}
    assert original.inner.label == "net"
