"""Where torch defines them."""

from torch import manual_seed as manual_seed
from torch import seed as seed
