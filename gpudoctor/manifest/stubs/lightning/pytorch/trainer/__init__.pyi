"""The trainer, where others look for it."""

from lightning.pytorch import Trainer as Trainer
