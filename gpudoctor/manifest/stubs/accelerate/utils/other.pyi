"""Where accelerate defines it."""

from accelerate.utils import wait_for_everyone as wait_for_everyone
