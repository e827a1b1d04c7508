"""Loaders of graphs, and of nodes of one graph with their neighbours, which know what torch's knows."""

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

class NeighborLoader:
    def __init__(
        self,
        data,
        num_neighbors,
        input_nodes=None,
        input_time=None,
        replace=False,
        subgraph_type="directional",
        disjoint=False,
        temporal_strategy="uniform",
        time_attr=None,
        weight_attr=None,
        transform=None,
        transform_sampler_output=None,
        is_sorted=False,
        filter_per_worker=None,
        neighbor_sampler=None,
        directed=True,
        *,
        batch_size=1,
        shuffle=False,
        sampler=None,
        batch_sampler=None,
        num_workers=0,
        **more,
    ): ...
