"""Where apex defines it."""

from apex.parallel import LARC as LARC
