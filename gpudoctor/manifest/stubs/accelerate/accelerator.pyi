"""Where accelerate defines it."""

from accelerate import Accelerator as Accelerator
