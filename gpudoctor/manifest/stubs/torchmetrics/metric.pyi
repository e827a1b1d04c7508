"""Where torchmetrics defines it."""

from torchmetrics import *
