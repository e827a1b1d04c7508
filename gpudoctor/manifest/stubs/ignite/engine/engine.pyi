"""Where ignite defines it."""

from ignite.engine import *
