"""Which loaders read a share of the data on each rank, by what their data sets were made of."""

from __future__ import annotations

import pytest

from gpudoctor.lint.events.data_loading import MakeLoader

PROGRAM = """
    import os, tracker, torch.distributed as dist
    from torch.utils.data import DataLoader, Dataset
    class Images(Dataset):
        def __init__(self, part):
            self.part = part
        def __getitem__(self, index):
            return index
    dist.init_process_group("nccl")
    rank = int(os.environ["RANK"])
    DataLoader(Images(PART))
"""


@pytest.mark.parametrize(
    ("part", "may_be", "surely"),
    [
        pytest.param("rank", True, True, id="the rank"),
        pytest.param("[0, 1, 2, 3][rank::2]", True, True, id="items by rank"),
        pytest.param("tracker.settings(rank)", True, False, id="what a library makes of the rank"),
        pytest.param("tracker.settings", False, False, id="the same on all ranks"),
    ],
)
def test_what_a_data_set_keeps(paper, part, may_be, surely):
    loader = paper(PROGRAM.replace("PART", part)).event(MakeLoader).loader
    assert (loader.sharded, loader.surely_sharded) == (may_be, surely)
