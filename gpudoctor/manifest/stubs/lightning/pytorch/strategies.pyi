"""Those of a `Trainer`."""

from lightning.fabric.strategies import DDPStrategy as DDPStrategy
from lightning.fabric.strategies import FSDPStrategy as FSDPStrategy
from lightning.fabric.strategies import _Strategy

from gpudoctor.manifest.effects import collective

class Strategy(_Strategy):
    @collective(adds_up=True)
    def reduce(self, tensor, group=None, reduce_op="mean"): ...
