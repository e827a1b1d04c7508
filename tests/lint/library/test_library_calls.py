"""What library calls make: devices in every spelling, objects of classes that extend a library's, loaders, groups."""

import pytest

from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import MakeLoader, MakeSampler
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.model import SyncNorm, Wrap
from gpudoctor.lint.events.process import DestroyGroup, InitGroup, SeedSet
from gpudoctor.lint.events.reporting import StartLogger

KINDS = {
    "devices": """
        import os, torch, torch.distributed as dist
        local = int(os.environ["LOCAL_RANK"])
        reveal(torch.device("cpu"))  #: cpu
        reveal(torch.device("cuda:1"))  #: cuda:1
        reveal(torch.device("cuda", local))  #: cuda:local rank
        reveal(torch.device(f"cuda:{local}"))  #: cuda:local rank
        reveal(torch.device("cuda:" + str(local)))  #: cuda:local rank
        reveal(torch.device("cuda:{}".format(local)))  #: cuda:local rank
        reveal(torch.device("cuda:%d" % local))  #: cuda:local rank
        reveal(torch.device(str(torch.device("cuda", local))))  #: cuda:local rank
        reveal(torch.device(local))  #: cuda:local rank
        reveal(torch.device(type="cuda", index=2))  #: cuda:2
        reveal(torch.device("cuda" if torch.cuda.is_available() else "cpu"))  #: cuda
        """,
    "devices that there are not": """
        import os, torch
        reveal(torch.device("cuda:²"))  #: unknown
        reveal(torch.device("cuda:"))  #: unknown
        reveal(torch.device("cuda:DIGITS"))  #: unknown
        reveal(torch.device(os.path.join()))  #: unknown
        """.replace("DIGITS", "9" * 5_000),
    "versions": """
        import torch
        reveal(torch.__version__ >= "1.8")  #: True
        reveal(torch.__version__ < "1.٣")  #: False
        if torch.__version__ >= "DIGITS":
            reveal(1)  #: 1
        """.replace("DIGITS", "9" * 5_000),
    "objects of classes that extend a library's": """
        import torch.nn as nn, lightning as L
        from torch.utils.data import DataLoader, Dataset, IterableDataset, Sampler
        class Net(nn.Module): pass
        class Deeper(Net): pass
        class Layers(nn.Sequential): pass
        class Images(Dataset): pass
        class Stream(IterableDataset): pass
        class Order(Sampler): pass
        class Batches(DataLoader): pass
        class Plain: pass
        reveal(Net())  #: Net
        reveal(Deeper())  #: Deeper
        reveal(Layers(Net()))  #: Layers
        reveal(Images())  #: Dataset
        reveal(Stream())  #: Dataset
        reveal(Order())  #: Order
        reveal(Batches(Images()))  #: Loader
        reveal(Plain())  #: Plain()
        """,
    "numbers of processes": """
        import os, torch, torch.distributed as dist
        reveal(dist.get_world_size())  #: world size
        reveal(torch.cuda.device_count())  #: device count
        reveal(int(os.environ["LOCAL_WORLD_SIZE"]))  #: local world size
        reveal(dist.get_world_size() > 1)  #: True
        reveal(dist.get_node_local_rank())  #: local rank
        """,
    "a copy of the environment": """
        import os
        own = os.environ.copy()
        own["PLACE"] = "here"
        reveal(own["PLACE"])  #: 'here'
        reveal("PLACE" in own)  #: True
        reveal("RANK" in own)  #: True
        reveal(own["RANK"])  #: global rank as text
        os.environ["PLACE"] = "there"
        reveal(own["PLACE"])  #: 'here'
        """,
    "kinds of devices": """
        import os, torch
        name = "cuda:%d" % int(os.environ["LOCAL_RANK"])
        gpu = torch.device(name)
        reveal(gpu != torch.device("cpu"))  #: True
        reveal(gpu == torch.device("cpu"))  #: False
        reveal(gpu != "cpu")  #: True
        reveal(name == "cpu")  #: False
        reveal(str(gpu) == "cpu")  #: False
        """,
    "one rank in two names": """
        import os, torch.distributed as dist
        a, b = dist.get_rank(), int(os.environ["RANK"])
        if a == 0:
            if b != 0:
                reveal(1)  #: never
            reveal(2)  #: 2
        elif b == 0:
            reveal(3)  #: never
        """,
    "builtins": """
        reveal(len("abc"))  #: 3
        reveal(int("3") + 1)  #: 4
        reveal(float("0.5"))  #: 0.5
        reveal(str(3))  #: '3'
        reveal(bool(0))  #: False
        reveal("a-b".replace("-", "_"))  #: 'a_b'
        reveal(isinstance(3, int))  #: True
        reveal(list((1, 2)))  #: [1, 2]
        reveal(dict(a=1))  #: {'a': 1}
        """,
    "what a container is": """
        import collections.abc, typing
        from collections.abc import MutableMapping
        reveal(isinstance({"a": 1}, MutableMapping))  #: True
        reveal(isinstance({"a": 1}, typing.Mapping))  #: True
        reveal(isinstance({"a": 1}, collections.abc.Sequence))  #: False
        reveal(isinstance([1], collections.abc.MutableSequence))  #: True
        reveal(isinstance((1,), collections.abc.Iterable))  #: True
        reveal(isinstance((1,), (list, MutableMapping)))  #: False
        """,
    "what a class is": """
        class Own: pass
        reveal(isinstance(Own, type))  #: True
        reveal(isinstance(Own(), type))  #: False
        """,
}


@pytest.mark.parametrize("source", KINDS.values(), ids=KINDS)
def test_library_calls_make(paper, source: str):
    paper(source)


def test_a_sharded_loader(paper):
    found = paper(
        """
        import torch, torch.distributed as dist
        from torch.utils.data import DataLoader, TensorDataset
        from torch.utils.data.distributed import DistributedSampler
        dist.init_process_group("nccl")
        data = TensorDataset(torch.zeros(8))
        sampler = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=dist.get_rank(), shuffle=False)
        loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2, pin_memory=True)
        """
    )
    sampler = found.event(MakeSampler).sampler
    assert sampler.distributed
    assert repr(sampler.rank) == "Rank(global rank)"
    assert repr(sampler.shuffle) == "False"
    assert found.event(MakeSampler).group_exists
    loader = found.event(MakeLoader).loader
    assert loader.sampler.single == sampler
    assert (repr(loader.batch_size), repr(loader.num_workers), repr(loader.pin_memory)) == ("4", "2", "True")
    assert loader.shuffle is None


def test_a_group_begins_and_ends(paper):
    found = paper(
        """
        import torch, torch.distributed as dist
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        dist.init_process_group(backend="gloo", init_method="env://")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        dist.all_reduce(torch.zeros(1), async_op=True)
        dist.destroy_process_group()
        """
    )
    before, after = found.events(Wrap)
    assert before.group_exists is False
    assert after.group_exists is True
    group = found.event(InitGroup)
    assert (repr(group.backend), repr(group.init_method), group.rank) == ("'gloo'", "'env://'", None)
    assert found.event(Collective).asynchronous
    assert found.events(DestroyGroup)


@pytest.mark.parametrize(
    ("line", "kind", "call"),
    [
        ("torch.save(torch.zeros(1), 'a.pt')", Save, "torch.save"),
        ("wandb.init(project='x')", StartLogger, "wandb.init"),
        ("SummaryWriter('runs')", StartLogger, "torch.utils.tensorboard.SummaryWriter"),
        ("torch.manual_seed(1)", SeedSet, "torch.manual_seed"),
    ],
)
def test_files_loggers_and_seeds(paper, line: str, kind: type, call: str):
    found = paper(f"import torch, wandb\nfrom torch.utils.tensorboard import SummaryWriter\n{line}\n")
    assert found.event(kind).call == call


def test_batch_norm_over_all_ranks(paper):
    found = paper(
        """
        import torch, torch.nn as nn
        from elsewhere import build
        convert = nn.SyncBatchNorm.convert_sync_batchnorm
        layer = nn.SyncBatchNorm(4)
        bare = convert(nn.BatchNorm1d(4).cuda())
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        reveal(convert(model) is model)  #: True
        unseen = convert(module=build())
        wrapped = nn.DataParallel(unseen)
        """
    )
    made, new, in_place, unseen = found.events(SyncNorm)
    assert (made.given, made.module.made_by) == (None, "torch.nn.SyncBatchNorm")
    assert (new.given.made_by, new.module.made_by) == ("torch.nn.BatchNorm1d", "torch.nn.SyncBatchNorm")
    assert in_place.given == in_place.module
    # What was not read is the same module to the conversion and to the wrapper.
    assert unseen.module == found.event(Wrap).inner


def test_what_the_class_of_a_library_returns_is_no_none(paper):
    paper(
        """
        import argparse
        from torch.utils.tensorboard import SummaryWriter
        args = argparse.ArgumentParser().parse_args()
        writer = SummaryWriter("runs") if args.log else None
        if args.log:
            reveal(writer is None)  #: False
        else:
            reveal(writer is None)  #: True
        """
    )


def test_a_tensor_is_asked_whether_it_is_on_a_gpu(paper):
    paper(
        """
        import torch
        from layout import given
        reveal(torch.zeros(2).is_cuda)  #: False
        reveal(torch.zeros(2).cuda().is_cuda)  #: True
        reveal(torch.stack([given]).is_cuda)  #: unknown
        for batch in torch.utils.data.DataLoader([torch.zeros(2)]):
            reveal(batch.is_cuda)  #: unknown
        """
    )
