"""What is known of the data behind a loader."""

from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.events.data_loading import Augments, MakeLoader
from gpudoctor.lint.events.reporting import Averaged, MetricShown


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


def test_a_data_set_is_not_unpacked(paper):
    paper("""
import argparse
import torch
from torch.utils.data import TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="train")
def load(mode):
    if mode == "test":
        return TensorDataset(torch.zeros(8))
    return 1, 2
first, second = load(parser.parse_args().mode)
reveal((first, second))  #: (1, 2)
""")


def test_what_is_written_into_a_tensor_many_times_over(paper):
    found = paper("""
import argparse
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
parser = argparse.ArgumentParser()
parser.add_argument("--wide", action="store_true")
args = parser.parse_args()
dist.init_process_group("nccl")
data = TensorDataset(torch.load("x.pt"), torch.load("y.pt"))
net = torch.nn.Linear(8, 8) if args.wide else torch.nn.Linear(8, 4)
sums = torch.zeros(3)
for index, (x, y) in enumerate(DataLoader(data, sampler=DistributedSampler(data))):
    output = net(x)
    sums[0] += torch.nn.functional.nll_loss(output, y, reduction="sum").item()
    sums[1] += output.argmax(dim=1).eq(y).sum().item()
    sums[2] += len(y)
sums[0] = sums[0] / (index + 1)
print(sums[0], sums[1] / sums[2])
""")
    assert [len(event.shards) for event in found.events(MetricShown)] == [1]
