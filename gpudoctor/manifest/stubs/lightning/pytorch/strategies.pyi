"""Those of a `Trainer`."""

from lightning.fabric.strategies import DDPStrategy as DDPStrategy
