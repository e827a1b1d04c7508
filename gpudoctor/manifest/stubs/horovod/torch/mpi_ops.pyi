"""Where Horovod defines them."""

from horovod.torch import *
