"""When the driver is first asked for GPUs, what data sets do on them, and how workers are started."""

import pytest

from gpudoctor.lint.events.data_loading import MakeLoader
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import CudaStarted, ItemOnGpu
from gpudoctor.lint.events.process import SetStartMethod

ASKING = {
    "is_available": ("torch.cuda.is_available()", 1),
    "twice": ("torch.cuda.is_available(); torch.cuda.current_device()", 1),
    "a name": ("torch.cuda.get_device_name(0)", 1),
    "a count": ("torch.cuda.device_count()", 0),
    "a seed": ("torch.cuda.manual_seed_all(0); torch.manual_seed(0)", 0),
    "a device": ("torch.device('cuda')", 0),
}


@pytest.mark.parametrize(("line", "times"), ASKING.values(), ids=ASKING)
def test_when_the_driver_is_asked(paper, line: str, times: int):
    assert len([*paper(f"import torch\n{line}").events(CudaStarted)]) == times


ITEMS = {
    "moved": ("x.cuda()", 1),
    "made there": ("torch.zeros(2, device='cuda:0')", 1),
    "moved if asked": ("x.cuda() if os.environ.get('X') else x", 0),
    "on the CPU": ("x.cpu()", 0),
    "where it is told": ("x.to(os.environ['DEVICE'])", 0),
}
LOADER = """
    import os, torch
    from torch.utils.data import DataLoader, Dataset
    class Items(Dataset):
        def __len__(self): return 9
        def __getitem__(self, i):
            x = torch.zeros(2)
            return {item}
    def together(items):
        x = torch.stack(items)
        return {batch}
    for x in DataLoader(Items(), 4, num_workers=2, collate_fn={collate}): pass
    """


@pytest.mark.parametrize(("item", "times"), ITEMS.values(), ids=ITEMS)
def test_items_that_are_put_on_a_gpu(paper, item: str, times: int):
    found = paper(LOADER.format(item=item, batch="x", collate="None"))
    assert len([*found.events(ItemOnGpu)]) == times


def test_batches_that_are_put_on_a_gpu(paper):
    (event,) = paper(LOADER.format(item="x", batch="x.cuda()", collate="together")).events(ItemOnGpu)
    assert event.location.line == 11


def test_how_workers_are_started(paper):
    found = paper("""
        import torch.multiprocessing as mp, multiprocessing
        from torch.utils.data import DataLoader
        mp.set_start_method("spawn", force=True)
        multiprocessing.set_start_method("fork")
        DataLoader([1], multiprocessing_context="forkserver")
        """)
    assert [event.location.line for event in found.events(SetStartMethod)] == [4, 5]
    (made,) = found.events(MakeLoader)
    assert str(made.loader.context.single) == "'forkserver'"


def test_whether_sharding_keeps_the_parameters(paper):
    found = paper("""
        import torch.nn as nn
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
        FSDP(nn.Linear(2, 2), use_orig_params=True)
        FSDP(nn.Linear(2, 2), use_orig_params=company.setting())
        FSDP(nn.Linear(2, 2), use_orig_params=None)
        FSDP(nn.Linear(2, 2))
        """)
    assert [wrap.keeps_parameters for wrap in found.events(Wrap)] == [True, None, False, False]
