"""Where metrics were before torchmetrics had a package of its own."""

from torchmetrics import *
