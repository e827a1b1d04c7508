"""Where apex defines them."""

from apex.normalization import *
