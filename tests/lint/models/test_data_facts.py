"""What is known of the data behind a loader."""

from __future__ import annotations

from gpudoctor.lint.values.data import Loader
from gpudoctor.lint.values.event import MakeLoader


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
