"""What models are, and can do, that `fully_shard` was called with."""

import pytest

from gpudoctor.lint.events.model import Forward, ShardingRefused, Wrap
from gpudoctor.lint.events.training_step import GradientSync
from gpudoctor.lint.questions.names import name_of

START = """
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.device_mesh import init_device_mesh

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 4)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.table = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
        self.head = nn.Linear(4, 9)

    def forward(self, x):
        return self.head(self.layers[0](self.embed(x)))

dist.init_process_group("nccl")
model = Net()
"""


def left_whole(paper, text):
    program = paper(f"{START}{text}\nmodel(torch.ones(3).long())")
    return [name_of(each) for call in program.events(Forward) for each in call.left_whole]


def test_a_sharded_model_is_of_another_class(paper):
    paper(f"""{START}
reveal(isinstance(model, FSDPModule), hasattr(model, "no_sync"))  #: False
fully_shard(model)
reveal(isinstance(model, FSDPModule))  #: True
reveal(hasattr(model, "set_requires_gradient_sync"))  #: True
reveal(hasattr(model, "no_sync"))  #: False
reveal(isinstance(model, nn.parallel.DistributedDataParallel))  #: False
model.set_modules_to_forward_prefetch([model])
reveal(1)  #: 1
""")


def test_its_methods_decide_when_gradients_are_reduced(paper):
    program = paper(f"""{START}
fully_shard(model)
model.set_requires_gradient_sync(False)
model.set_requires_gradient_sync(False, recurse=False)
model.set_requires_gradient_sync(True)
model.no_sync()
""")
    syncs = [(each.call, each.never) for each in program.events(GradientSync)]
    name = "set_requires_gradient_sync"
    assert syncs == [(name, True), (name, False), (name, False), ("no_sync", False)]


@pytest.mark.parametrize("layers", ["{str(i): nn.Linear(4, 4) for i in range(3)}", "dict(a=nn.Linear(4, 4))"])
def test_the_parts_of_a_dict_of_modules_are_followed(paper, layers):
    program = paper(f"""{START}
table = nn.ModuleDict({layers})
for name, layer in table.items():
    fully_shard(layer)
""")
    assert [name_of(each.wrapper) for each in program.events(Wrap)][:1] == ["`nn.Linear`"]


def test_modules_in_a_list_are_sharded_as_one(paper):
    program = paper(f"{START}fully_shard([model.embed, model.head], mesh=init_device_mesh('cuda', (2,)))")
    assert [name_of(each.wrapper) for each in program.events(Wrap)] == ["`self.embed`", "`self.head`"]


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("", []),
        ("fully_shard(model)", []),
        ("for layer in model.layers:\n    fully_shard(layer)", ["`self.embed`", *["`nn.Linear`"] * 2, "`self.head`"]),
        ("for layer in model.table.values():\n    fully_shard(layer)", ["`self.embed`", "`nn.Linear`", "`self.head`"]),
        (
            "for _, part in model.table.items():\n    fully_shard(part)",
            ["`self.embed`", "`nn.Linear`", "`self.head`"],
        ),
        (
            "for part in model.modules():\n    if isinstance(part, nn.Linear):\n        fully_shard(part)",
            ["`self.embed`"],
        ),
        ("for part in model.modules():\n    if len(list(part.children())) > 2:\n        fully_shard(part)", []),
        ("fully_shard(model.layers[0])\nouter = nn.Sequential(model)\nfully_shard(outer)", []),
        ("for layer in model.layers:\n    fully_shard(layer)\nif torch.rand(1) > 0.5:\n    fully_shard(model)", []),
    ],
)
def test_what_stays_whole_beside_shards(paper, text, whole):
    assert left_whole(paper, text) == whole


SCALED = f"""{START}
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.scale = nn.Parameter(torch.tensor(1.0))

whole = Scaled()
"""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("", ["scalar parameter"]),
        ("whole.scale = nn.Parameter(torch.ones(1))", []),
        ("for name, p in whole.named_parameters():\n    setattr(whole, name, nn.Parameter(p.unsqueeze(0)))", []),
        ("for p in whole.parameters():\n    if p.ndim == 0:\n        p.data = p.data.unsqueeze(0)", []),
        ("fully_shard(whole.net.layers)", ["container", "scalar parameter"]),
    ],
)
def test_what_is_refused(paper, change, why):
    program = paper(f"{SCALED}{change}\nfully_shard(whole)")
    assert [each.why for each in program.events(ShardingRefused)] == why
