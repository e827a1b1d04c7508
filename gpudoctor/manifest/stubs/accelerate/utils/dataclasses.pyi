"""Where accelerate defines what an `Accelerator` is told by."""

from accelerate.utils import *
