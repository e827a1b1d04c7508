"""What is known of the inside of a model: layers that its forward leaves out, constants, tensors that cross."""

import pytest

from gpudoctor.lint.events.model import UnusedPart
from gpudoctor.lint.events.placement import ConstantMixed, Crossed, FixedMet, TensorKept

MODEL = """
    import company, os, torch, torch.nn as nn
    from torch.nn.parallel import DistributedDataParallel as DDP
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.other = nn.Linear(2, 2), nn.Linear(2, 2)
            self.kept = torch.ones(2, 1)
            self.register_buffer("buffer", torch.ones(2, 1))
        def forward(self, x):
            {line}
            return self.used(x)
    torch.distributed.init_process_group("nccl")
    model = DDP({model}, device_ids=[0])
    model(torch.zeros(2, 2, device="cuda:0"))
    """


def inside(paper, line: str = "pass", model: str = "Block().cuda(0)"):
    return paper(MODEL.format(line=line, model=model))


UNUSED = {
    "pass": ["other"],
    "self.other(x)": [],
    "x = x + self.other.weight": [],
    "x = self.other(x) if os.environ.get('X') else x": [],
    "getattr(self, os.environ['X'])(x)": [],
    "company.helper(self)": [],
    "list(self.children())[1](x)": [],
}


@pytest.mark.parametrize(("line", "names"), UNUSED.items(), ids=UNUSED)
def test_layers_that_forward_leaves_out(paper, line: str, names: list[str]):
    assert [event.name for event in inside(paper, line).events(UnusedPart)] == names


@pytest.mark.parametrize(
    "model", ["nn.Sequential(Block()).cuda(0)", "nn.Sequential(nn.ReLU(), Block(), Block()).cuda(0)"]
)
def test_parts_of_a_sequential_are_looked_into_once(paper, model: str):
    assert [event.name for event in inside(paper, model=model).events(UnusedPart)] == ["other"]


MIXED = {
    "x = x + torch.arange(2)": 1,
    "x = x * torch.linspace(0, 1, 4)[:2].unsqueeze(0)": 1,
    "x = torch.cat([x, torch.zeros(2, 2)])": 1,
    "x = x.masked_fill(torch.ones(2, 2).tril() == 0, 0)": 1,
    "x = x * self.kept": 1,
    "x = x * self.buffer": 0,
    "x = x + torch.arange(2, device=x.device)": 0,
    "x = x + torch.arange(2).to(x.device)": 0,
    "x = x + torch.tensor(2)": 0,
    "x = x + torch.arange(2)[0]": 0,
    "x = x + torch.zeros(x.shape)": 0,
    "x = x[torch.arange(2)]": 0,
    "x = x + torch.arange(2) if os.environ.get('X') else x": 0,
}


@pytest.mark.parametrize(("line", "times"), MIXED.items(), ids=MIXED)
def test_constants_on_the_cpu(paper, line: str, times: int):
    assert len([*inside(paper, line).events(ConstantMixed)]) == times


def test_weights_that_a_constant_meets(paper):
    (event,) = inside(paper, "self.used(torch.zeros(2, 2))").events(ConstantMixed)
    assert event.module.label == "self.used"


def test_tensors_that_modules_keep(paper):
    (event,) = inside(paper).events(TensorKept)
    assert (event.name, event.taken_along) == ("kept", False)


COPIED = """
    import torch, torch.nn as nn
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.kept = {kept}
        def forward(self, x):
            {line}
            return self.layer(x)
    model = {wrapper}(Block().cuda())
    model(torch.zeros(2, 2))
    """
FIXED = {
    ("torch.ones(2, 1).cuda()", "x = self.layer(x) * self.kept"): 1,
    ("torch.ones(2, 1, device='cuda:0')", "x = self.layer(x) * self.kept"): 1,
    ("torch.ones(2, 2).to('cuda').tril().unsqueeze(0)", "x = self.layer(x) + self.kept[:1]"): 1,
    ("torch.ones(2, 1).cuda()", "x = self.layer(x) * self.kept.to(x.device)"): 0,
    ("torch.ones(2, 1)", "x = self.layer(x) * self.kept.to(x.device)"): 0,
    ("torch.ones(2, 1)", "x = self.layer(x) * torch.ones(2, 1, device='cuda')"): 0,
    ("torch.ones(2, 1).cuda()", "x = self.layer(x) * self.kept.cpu()"): 0,
    ("torch.tensor(2).cuda()", "x = self.layer(x) * self.kept"): 0,
    ("torch.ones(2, 1).cuda()", "x = self.layer(x)[self.kept]"): 0,
}


@pytest.mark.parametrize(("lines", "times"), FIXED.items(), ids=map(str, FIXED))
def test_tensors_of_one_gpu_in_copies(paper, lines: tuple[str, str], times: int):
    found = paper(COPIED.format(kept=lines[0], line=lines[1], wrapper="nn.DataParallel"))
    assert len([*found.events(FixedMet)]) == times


@pytest.mark.parametrize("wrapper", ["nn.parallel.DistributedDataParallel", "nn.Sequential"])
def test_a_module_of_one_gpu_has_no_copies(paper, wrapper: str):
    found = paper(COPIED.format(kept="torch.ones(2, 1).cuda()", line="x = self.layer(x) * self.kept", wrapper=wrapper))
    assert not [*found.events(FixedMet)]


def test_tensors_on_two_gpus(paper):
    found = paper("""
        import torch, torch.nn as nn
        first, second = nn.Linear(2, 2).to("cuda:0"), nn.Linear(2, 2).to("cuda:1")
        x = first(torch.zeros(2, 2).to("cuda:0"))
        second(x)
        second(x.to("cuda:1")) + x
        second(x.to("cuda:1")) + x.to("cuda:1")
        """)
    assert [event.location.line for event in found.events(Crossed)] == [5, 6]


def test_one_of_several_models_is_compiled(paper):
    paper(
        """
        import argparse, torch
        from torch import nn

        parser = argparse.ArgumentParser()
        parser.add_argument("--small", action="store_true")
        args = parser.parse_args()
        model = torch.compile(nn.Linear(2, 2) if args.small else nn.Conv2d(2, 2, 1))
        reveal(model)  #: torch.compile(Linear) if args.small | torch.compile(Conv2d) if not (args.small)
        reveal(model._orig_mod)  #: Linear if args.small | Conv2d if not (args.small)
        """
    )


def test_modules_that_are_parts_of_each_other(paper):
    """As a branch that was put into the tree twice, where it is not known which one is meant."""
    paper(
        """
    import torch
    from torch import nn
    class Branch(nn.Module):
        def __init__(self, other=None):
            super().__init__()
            self.other = other
    root = Branch()
    root.other = Branch(Branch(root))
    Branch().other = root
    reveal("after")  #: 'after'
    """
    )
