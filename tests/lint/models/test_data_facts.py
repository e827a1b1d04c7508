"""What is known of the data behind a loader."""

from __future__ import annotations

from gpudoctor.lint.values.data import Dataset, Loader, Sampler
from gpudoctor.lint.values.event import Augments, Averaged, MakeLoader
from gpudoctor.lint.values.function import Class


def test_data_that_are_random_numbers(paper):
    found = paper(
        """
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset
class Noise(Dataset):
    def __init__(self, scale):
        self.scale, self.x = scale, torch.randn(64, 8)
made_up = TensorDataset(torch.randn(64, 8), torch.zeros(64))
DataLoader(made_up)
DataLoader(Subset(made_up, range(8)))
DataLoader(Noise(2))
DataLoader(TensorDataset(torch.arange(64), torch.load("y.pt")))
""",
        launch="single",
    )
    loaders = [event.loader for event in found.events(MakeLoader)]
    assert [isinstance(each, Loader) and each.made_up for each in loaders] == [True, True, True, False]


STREAMS = """
import random, torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, Sampler
class Plain(IterableDataset):
    def __init__(self, count): self.count = count
    def __iter__(self):
        for index in range(self.count): yield index
class Shares(Plain):
    def __iter__(self):
        for index in range(dist.get_rank(), self.count, 8): yield index
class Mixed(Plain):
    def __iter__(self):
        yield from random.sample(range(self.count), self.count)
class Files(Plain):
    def __iter__(self):
        for path in self.count:
            for line in open(path): yield line
class Order(Sampler):
    def __iter__(self): return iter(range(8))
class Endless(Sampler):
    def __iter__(self):
        while True: yield 0
for each in (Plain(1), Shares(2), Mixed(3), Files(["a"])): DataLoader(each)
DataLoader([1], sampler=Order())
DataLoader([1], sampler=Endless())
"""


def test_what_classes_say_about_ranks(paper):
    found = paper(STREAMS, launch="single")
    loaders = [event.loader for event in found.events(MakeLoader)]
    data = [each for loader in loaders if isinstance(loader, Loader) for each in loader.dataset or ()]
    known = {each.cls.label: each for each in data if isinstance(each, Dataset) and isinstance(each.cls, Class)}
    assert {name for name, each in known.items() if each.same_on_ranks} == {"Plain", "Files"}
    assert {name for name, each in known.items() if each.by_pieces} == {"Files"}
    samplers = [each for loader in loaders if isinstance(loader, Loader) for each in loader.sampler or ()]
    assert [isinstance(each, Sampler) and each.same_on_ranks for each in samplers] == [True, False]


def test_transforms_that_draw_and_sums_that_are_divided(paper):
    found = paper(
        """
import torch, torchvision
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from torchvision import transforms as T
T.Compose([T.RandomCrop(32), T.Resize(32), T.v2.ColorJitter()])
dist.init_process_group("nccl")
data = TensorDataset(torch.zeros(8))
total = 0
for x, in DataLoader(data, sampler=DistributedSampler(data)):
    total += x.sum()
print(total / len(data), total / 8)
""",
        launch="torchrun",
    )
    assert [event.call.rpartition(".")[2] for event in found.events(Augments)] == ["RandomCrop", "ColorJitter"]
    (divided,) = found.events(Averaged)
    assert (divided.dataset.label, len(divided.shards)) == ("data", 1)
