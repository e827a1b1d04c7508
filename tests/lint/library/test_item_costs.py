"""What an item of a data set costs, and copies to the GPU from memory that is not pinned."""

from gpudoctor.lint.events.data_loading import ItemRead
from gpudoctor.lint.events.placement import Move

HEAD = """
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
"""


def test_items_that_are_read_whenever_they_are_asked_for(paper):
    found = paper(
        HEAD
        + """
class Read(Dataset):
    def __getitem__(self, index):
        return Image.open(f"{index}.png")
class Kept(Dataset):
    def __init__(self):
        self.kept = {}
    def __getitem__(self, index):
        if index not in self.kept:
            self.kept[index] = Image.open(f"{index}.png")
        return self.kept[index]
class Once(Dataset):
    def __init__(self):
        self.all = [torch.load("all.pt"), open("more.txt").read()]
    def __getitem__(self, index):
        return self.all[0]
for data in (Read(), Kept(), Once()):
    for batch in DataLoader(data):
        pass
""",
        launch="single",
    )
    assert [(event.dataset.label, event.call, event.location.line) for event in found.events(ItemRead)] == [
        ("Read", "PIL.Image.open", 8)
    ]


def test_copies_that_ask_for_pinned_memory(paper):
    found = paper(
        HEAD
        + """
x = torch.zeros(4)
x.cuda()
x.cuda(non_blocking=True)
x.pin_memory().cuda(non_blocking=True)
""",
        launch="single",
    )
    assert [event.unpinned_async for event in found.events(Move)] == [False, True, False]
