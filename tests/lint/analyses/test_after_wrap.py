"""What becomes of a model after it was wrapped: parts that join it, flags of gradients, casts, weights drawn anew."""

import pytest

from gpudoctor.lint.events.model import GradientFlag, PartAdded, WeightsDrawn, Wrap
from gpudoctor.lint.events.placement import Move

SET_UP = """
    import os, torch, torch.nn as nn, torchvision
    from torch.nn.parallel import DistributedDataParallel as DDP
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(2, 2))
            self.head = nn.Linear(2, 2)
            self.extra = None
    torch.distributed.init_process_group("gloo")
    {lines}
    """

TRAINABLE = {
    "a model": ("net = Net()", None),
    "frozen by a loop": ("net = Net()\n    for p in net.parameters(): p.requires_grad = False", False),
    "frozen, moved and evaluating": ("net = Net().requires_grad_(False)\n    net = net.eval().cuda()", False),
    "but for some of them": (
        "net = Net()\n    for n, p in net.named_parameters(): p.requires_grad = 'h' in n", None
    ),
    "and a part thawed": ("net = Net().requires_grad_(False)\n    net.head.requires_grad_(True)", None),
    "and a part replaced": ("net = Net().requires_grad_(False)\n    net.head = nn.Linear(2, 2)", None),
    "and own parameters": ("net = Net().requires_grad_(False)\n    net.p = nn.Parameter(torch.ones(2))", None),
    "a part that is not seen": (
        "net = torchvision.models.resnet18().requires_grad_(False)\n    net.fc.requires_grad_(True)", None
    ),
    "by way of all modules": (
        "net = Net().requires_grad_(False)\n    for m in net.modules(): m.weight.requires_grad = True", None
    ),
    "a loss": ("net = nn.CrossEntropyLoss()", False),
    "a layer without weights that got some": ("net = nn.ReLU()\n    net.add_module('x', nn.Linear(1, 1))", None),
}  # fmt: skip


@pytest.mark.parametrize(("lines", "trainable"), TRAINABLE.values(), ids=TRAINABLE)
def test_whether_a_wrapper_finds_something_to_train(paper, lines: str, trainable: bool | None):
    found = paper(SET_UP.format(lines=lines + "\n    DDP(net)")).events(Wrap)
    assert [wrap.trainable for wrap in found] == [trainable]


def test_arguments_of_the_wrapper(paper):
    (wrap,) = paper(SET_UP.format(lines="DDP(Net(), find_unused_parameters=True, static_graph=False)")).events(Wrap)
    assert (wrap.find_unused, wrap.static, wrap.opaque) == (True, False, False)
    (wrap,) = paper(SET_UP.format(lines="DDP(Net(), **torch.settings())")).events(Wrap)
    assert wrap.opaque


def test_one_of_several_models_is_not_certain(paper):
    lines = "net = Net() if os.environ.get('X') else nn.Linear(2, 2)\n    DDP(net)"
    assert {wrap.certain for wrap in paper(SET_UP.format(lines=lines)).events(Wrap)} == {False}


FLAGS = {
    "of a module": ("net.requires_grad_(False)", [("Net", False)]),
    "of its parameters": ("for p in net.head.parameters(): p.requires_grad_()", [("self.head", True)]),
    "not known": ("net.requires_grad_(bool(os.environ.get('X')))", [("Net", None)]),
}


@pytest.mark.parametrize(("lines", "flags"), FLAGS.values(), ids=FLAGS)
def test_flags_of_gradients(paper, lines: str, flags: list[tuple[str, bool | None]]):
    found = paper(SET_UP.format(lines="net = Net()\n    " + lines)).events(GradientFlag)
    assert [(event.module.cls.label if event.module.cls else event.module.label, event.on) for event in found][
        :1
    ] == flags


PARTS = {
    "a layer more": ("model.module.extra = nn.Linear(2, 2)", [("extra", False, True)]),
    "instead of another": ("model.module.head = nn.Linear(2, 2)", [("head", True, True)]),
    "the same one again": ("model.module.head = model.module.head.cuda()", []),
    "parameters": ("model.module.scale = nn.Parameter(torch.ones(2))", [("scale", False, True)]),
    "by its name": ("model.module.register_module('new', nn.ReLU())", [("new", False, False)]),
    "a norm of the weight": ("nn.utils.weight_norm(model.module.head)", [("weight", True, True)]),
    "a second model": ("other = Net(); other.body", []),
}


@pytest.mark.parametrize(("lines", "parts"), PARTS.values(), ids=PARTS)
def test_parts_that_join_a_wrapped_model(paper, lines: str, parts: list[tuple[str, bool, bool]]):
    found = paper(SET_UP.format(lines="model = DDP(Net())\n    " + lines)).events(PartAdded)
    assert [(event.name, event.replaced, event.parameters) for event in found] == parts


def test_nothing_is_logged_while_models_are_built(paper):
    lines = "net = Net(); net.head = nn.Linear(2, 3)\n    nn.init.normal_(net.head.weight)\n    model = DDP(net)"
    program = paper(SET_UP.format(lines=lines))
    assert [*program.events(PartAdded), *program.events(WeightsDrawn)] == []


DRAWN = {
    "each parameter": "for p in model.parameters(): nn.init.normal_(p)",
    "a weight": "nn.init.xavier_uniform_(model.module.head.weight)",
    "by a function for each part": (
        "def init(m):\n        if isinstance(m, nn.Linear): nn.init.kaiming_normal_(m.weight)\n    model.apply(init)"
    ),
}


@pytest.mark.parametrize("lines", DRAWN.values(), ids=DRAWN)
def test_weights_that_are_drawn_anew(paper, lines: str):
    assert [*paper(SET_UP.format(lines="model = DDP(Net())\n    " + lines)).events(WeightsDrawn)]


def test_constants_are_not_drawn(paper):
    lines = "model = DDP(Net())\n    for p in model.parameters(): nn.init.zeros_(p)\n    model.apply(print)"
    assert [*paper(SET_UP.format(lines=lines)).events(WeightsDrawn)] == []


CASTS = {
    "half()": "float16", "float()": "float32", "double()": "float64", "bfloat16()": "bfloat16",
    "to(torch.half)": "float16", "to('cuda', torch.float64)": "float64", "to(dtype=torch.bfloat16)": "bfloat16",
    "to('cuda')": "", "to(os.environ['X'])": "", "to(memory_format=torch.channels_last)": "",
}  # fmt: skip


@pytest.mark.parametrize(("call", "dtype"), CASTS.items(), ids=CASTS)
def test_types_that_models_are_cast_to(paper, call: str, dtype: str):
    assert [event.to_dtype for event in paper(SET_UP.format(lines=f"Net().{call}")).events(Move)] == [dtype]


def test_what_the_base_of_a_list_is_given_are_its_parts(paper):
    found = paper(
        """
        import torch
        from torch import nn
        class Heads(nn.ModuleList):
            def __init__(self, heads):
                super().__init__(heads.values())
        model = nn.DataParallel(Heads({"a": nn.Linear(1, 1)}))
        """
    )
    parts = found.program.within(found.event(Wrap).inner)
    assert "torch.nn.Linear" in {getattr(part, "made_by", "") for part in parts}
