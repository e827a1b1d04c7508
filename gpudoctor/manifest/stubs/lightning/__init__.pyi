"""Offers what its parts define."""

from lightning.fabric import Fabric as Fabric
from lightning.pytorch import LightningModule as LightningModule
from lightning.pytorch import Trainer as Trainer
from lightning.pytorch import seed_everything as seed_everything
