"""Where Composer defines it."""

from composer import *
