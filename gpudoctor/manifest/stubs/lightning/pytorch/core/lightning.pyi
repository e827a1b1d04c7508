"""Where Lightning defines it."""

from lightning.pytorch import LightningModule as LightningModule
