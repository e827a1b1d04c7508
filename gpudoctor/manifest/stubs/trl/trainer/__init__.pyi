"""Where trl defines them."""

from trl import *
