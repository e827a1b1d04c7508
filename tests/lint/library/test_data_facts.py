"""What is known of the data behind a loader."""

from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.events.data_loading import Augments, MakeLoader
from gpudoctor.lint.events.reporting import Averaged


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
