"""Where they were before version 0.5."""

from ignite.handlers import *
