"""Where accelerate defines them."""

from accelerate.utils import *
