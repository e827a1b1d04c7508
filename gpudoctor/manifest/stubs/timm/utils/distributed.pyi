"""Where timm defines them."""

from timm.utils import distribute_bn as distribute_bn
from timm.utils import init_distributed_device as init_distributed_device
from timm.utils import is_primary as is_primary
from timm.utils import reduce_tensor as reduce_tensor
