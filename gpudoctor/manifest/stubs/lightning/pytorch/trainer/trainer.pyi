"""The trainer, where it is."""

from lightning.pytorch import Trainer as Trainer
