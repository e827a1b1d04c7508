"""Data sets by name, and the loader of timm, which brings its batches to the GPU."""

from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision.datasets import ImageFolder

from gpudoctor.manifest.effects import followed

@followed()
def create_dataset(name, root=None, split="validation", **more):
    return ImageFolder(root)

@followed()
def resolve_data_config(args=None, pretrained_cfg=None, model=None, use_test_size=False, verbose=False):
    return {"input_size": (3, 224, 224), "interpolation": "bicubic", "mean": (), "std": (), "crop_pct": 0.875}

def _brought(loader): ...
@followed()
def create_loader(
    dataset,
    input_size,
    batch_size,
    is_training=False,
    use_prefetcher=True,
    num_workers=1,
    distributed=False,
    collate_fn=None,
    pin_memory=False,
    device="cuda",
    **more,
):
    sampler = DistributedSampler(dataset, shuffle=is_training) if distributed else None
    loader = DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=sampler is None and is_training,
        num_workers=num_workers,
        sampler=sampler,
        collate_fn=collate_fn,
        pin_memory=pin_memory,
        drop_last=is_training,
    )
    return _brought(loader) if use_prefetcher else loader
