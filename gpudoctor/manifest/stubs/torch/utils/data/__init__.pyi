"""Loaders, and which samples they take."""

from gpudoctor.manifest.effects import trains

def random_split(dataset, lengths, generator=...): ...

@trains()
class DataLoader:
    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=None,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        collate_fn=None,
        pin_memory=False,
        drop_last=False,
        timeout=0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        **more,
    ): ...

class SequentialSampler:
    def __init__(self, data_source): ...

class RandomSampler:
    def __init__(self, data_source, replacement=False, num_samples=None, generator=None): ...

class SubsetRandomSampler:
    def __init__(self, indices, generator=None): ...

class WeightedRandomSampler:
    def __init__(self, weights, num_samples, replacement=True, generator=None): ...

class BatchSampler:
    def __init__(self, sampler, batch_size, drop_last): ...
