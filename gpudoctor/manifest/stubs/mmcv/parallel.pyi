"""The wrapper of OpenMMLab, which is PyTorch's with a step in its forward."""

from gpudoctor.manifest.effects import forward_of, wraps

class MMDistributedDataParallel:
    @wraps(module="module", kind="DDP")
    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True, **more): ...
    def train_step(self, *inputs, **more):
        return forward_of(self, self.module, "train_step", *inputs)
    def val_step(self, *inputs, **more):
        return forward_of(self, self.module, "val_step", *inputs)
