"""The same for Keras in TensorFlow: programs with several frameworks ask it who they are."""

from horovod.torch import allgather as allgather
from horovod.torch import allgather_object as allgather_object
from horovod.torch import allreduce as allreduce
from horovod.torch import alltoall as alltoall
from horovod.torch import barrier as barrier
from horovod.torch import broadcast as broadcast
from horovod.torch import broadcast_object as broadcast_object
from horovod.torch import join as join
from horovod.torch import local_rank as local_rank
from horovod.torch import local_size as local_size
from horovod.torch import rank as rank
from horovod.torch import size as size
