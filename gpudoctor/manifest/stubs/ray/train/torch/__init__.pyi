"""Workers that train with PyTorch: they have joined one process group when they begin."""

import torch

from gpudoctor.manifest.effects import OwnGpu, as_taken, followed, possibly, starts_ranks, surely

class TorchTrainer:
    def __init__(self, train_loop_per_worker, *, train_loop_config=None, **more):
        self.train_loop_per_worker = train_loop_per_worker
        self.train_loop_config = train_loop_config
    def fit(self):
        def work(function, config):
            torch.distributed.init_process_group()
            as_taken(function, config)
        return self._start(work, (self.train_loop_per_worker, self.train_loop_config))
    @starts_ranks(function="function", args="args", meet=True)
    def _start(self, function, args): ...

def get_device() -> OwnGpu: ...
@followed()
def prepare_model(model, move_to_device=True, parallel_strategy="ddp", parallel_strategy_kwargs=None):
    if surely(not move_to_device):
        return model
    model.to(get_device())
    if possibly(parallel_strategy == "ddp"):
        return torch.nn.parallel.DistributedDataParallel(model, device_ids=[get_device()])
    return model

@followed()
def prepare_data_loader(data_loader, add_dist_sampler=True, move_to_device=True, auto_transfer=False):
    if surely(not add_dist_sampler) or surely(isinstance(data_loader.dataset, torch.utils.data.IterableDataset)):
        return data_loader
    if surely(isinstance(data_loader.sampler, torch.utils.data.distributed.DistributedSampler)):
        return data_loader
    return torch.utils.data.DataLoader(
        data_loader.dataset,
        batch_size=data_loader.batch_size,
        num_workers=data_loader.num_workers,
        sampler=torch.utils.data.distributed.DistributedSampler(data_loader.dataset),
    )
