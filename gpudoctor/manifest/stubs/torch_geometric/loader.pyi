"""A loader of graphs, which knows what torch's knows."""

class DataLoader:
    def __init__(
        self,
        dataset,
        batch_size=1,
        shuffle=False,
        follow_batch=None,
        exclude_keys=None,
        *,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        **more,
    ): ...
