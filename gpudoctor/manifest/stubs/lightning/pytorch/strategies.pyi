"""Those of a `Trainer`."""

from lightning.fabric.strategies import DDPStrategy as DDPStrategy
from lightning.fabric.strategies import FSDPStrategy as FSDPStrategy
from lightning.fabric.strategies import Strategy as Strategy
