"""What wraps models, and optimizers: that hands on all that it is asked for, and steps when they do."""

import torch

from gpudoctor.manifest.effects import followed, gives_back, opens, wraps

@followed()
def convert_syncbn_model(module, **more):
    return torch.nn.SyncBatchNorm.convert_sync_batchnorm(module)

class DistributedDataParallel:
    @wraps(module="module", kind="DDP", fixed=True)
    def __init__(self, module, message_size=10000000, **more): ...
    @opens(keeps_gradients=True)
    def disable_allreduce(self): ...
    @opens(keeps_gradients=True)
    def enable_allreduce(self): ...

class LARC:
    @gives_back(given="optimizer")
    def __init__(self, optimizer, trust_coefficient=0.02, clip=True, eps=1e-8): ...
