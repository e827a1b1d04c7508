"""The same as a library of its own."""

from lightning.fabric import *
