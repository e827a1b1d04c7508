"""Where ignite defines it."""

from ignite.handlers import *
