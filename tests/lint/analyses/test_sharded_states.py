"""States of which each rank holds a part: when they are asked for, and when they are brought together."""

from gpudoctor.lint.domain.device import on_cpu
from gpudoctor.lint.events.files import Save, ShardedState
from gpudoctor.lint.events.model import Forward

START = """
import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
dist.init_process_group("nccl")
net = torch.nn.Linear(3, 3).cuda()
"""


def states(paper, text):
    return [(event.call, event.gathers) for event in paper(START + text).events(ShardedState)]


def test_states_of_sharded_models(paper):
    assert states(paper, "FullyShardedDataParallel(net).state_dict()") == [("state_dict", True)]
    assert states(paper, "torch.nn.parallel.DistributedDataParallel(net).state_dict()") == []
    assert states(paper, "fully_shard(net)\nnet.state_dict()") == []


def test_only_full_states_of_sharded_models_are_gathered(paper):
    full = "get_model_state_dict(net, options=StateDictOptions(full_state_dict=True))"
    assert states(paper, f"fully_shard(net)\n{full}") == [("get_model_state_dict", True)]
    assert states(paper, full) == []
    assert states(paper, "fully_shard(net)\nget_model_state_dict(net)") == []


def test_state_of_a_zero_optimizer(paper):
    make = "from torch.distributed.optim import ZeroRedundancyOptimizer as Zero\n"
    make += "o = Zero(net.parameters(), torch.optim.SGD)\n"
    assert states(paper, f"{make}o.consolidate_state_dict(to=0)\no.state_dict()") == [
        ("consolidate_state_dict", True), ("state_dict", False),
    ]  # fmt: skip
    assert states(paper, "torch.optim.SGD(net.parameters(), lr=1).state_dict()") == []


def test_an_engine_writes_its_parts(paper):
    text = "import deepspeed\nengine, *rest = deepspeed.initialize(model=net)\nengine.save_checkpoint('out')"
    assert [(event.call, event.collective) for event in paper(START + text).events(Save)] == [
        (".save_checkpoint", True)
    ]


def test_shards_stay_on_the_cpus_of_their_mesh(paper):
    def on_cpus(mesh):
        made = f"net = torch.nn.Linear(3, 3)\n{mesh}\nfully_shard(net, mesh=mesh)\nnet(torch.ones(3))"
        (call,) = paper(START + made).events(Forward)
        return on_cpu(call.device)

    of_cpus = "mesh = dist.init_device_mesh('cpu', (1, 2), mesh_dim_names=('a', 'b'))"
    assert on_cpus(of_cpus)
    assert on_cpus(f"{of_cpus}['b']")
    assert on_cpus("mesh = dist.DeviceMesh('cpu', [0, 1])")
    assert not on_cpus("mesh = dist.init_device_mesh('cuda', (2,))")
    assert not on_cpus("mesh = None")
