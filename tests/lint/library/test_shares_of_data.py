"""Which loaders read a share of the data on each rank, by what their data sets were made of."""

import pytest

from gpudoctor.lint.events.collective import LeaveLoop
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


LIKE_A_RESULT = """
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.utils.data import DataLoader, DistributedSampler
    dist.init_process_group("nccl")
    data = torch.randn(64, 8)
    scores = nn.Linear(8, 1)(next(iter(DataLoader(data, sampler=DistributedSampler(data)))))
    for _ in range(9):
        if MADE.max() > 0:
            break
"""


@pytest.mark.parametrize(
    ("made", "of_this_rank"),
    [
        ("torch.zeros_like(scores)", False),
        ("torch.full_like(scores, 3)", False),
        ("torch.full_like(scores, scores.mean())", True),
        ("scores.new_ones(4)", False),
        ("torch.randn_like(scores)", True),
        ("scores.clone()", True),
    ],
)
def test_what_is_made_like_a_tensor_has_none_of_its_numbers(paper, made, of_this_rank):
    left = paper(LIKE_A_RESULT.replace("MADE", made)).events(LeaveLoop)
    assert any(event.local_guards for event in left) is of_this_rank
