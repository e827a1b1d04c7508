"""Offers what its part defines."""

from torch.distributed.nn.functional import all_gather as all_gather
from torch.distributed.nn.functional import all_reduce as all_reduce
from torch.distributed.nn.functional import all_to_all as all_to_all
from torch.distributed.nn.functional import all_to_all_single as all_to_all_single
from torch.distributed.nn.functional import broadcast as broadcast
from torch.distributed.nn.functional import gather as gather
from torch.distributed.nn.functional import reduce as reduce
from torch.distributed.nn.functional import reduce_scatter as reduce_scatter
from torch.distributed.nn.functional import scatter as scatter
