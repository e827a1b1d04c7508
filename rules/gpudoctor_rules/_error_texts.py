"""Error texts of several rules: with what a program ends whose ranks wait for each other forever, and the like."""

NCCL_TIMEOUT = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, "
    "NumelOut=1, Timeout(ms)=600000) ran for 600019 milliseconds before timing out.",
    "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU "
    "operations might run on corrupted/incomplete data.",
)
"""What the ranks that wait write after ten minutes with NCCL, where others never join them."""

GLOO_TIMEOUT = ("RuntimeError: Timed out waiting 1800000ms for recv operation to complete",)

PEER_GONE = ("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:15787",)
"""What a rank writes that waits over gloo for one whose program has ended."""

STUCK = (*NCCL_TIMEOUT, *GLOO_TIMEOUT, *PEER_GONE)

MISMATCH = (
    "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
    "CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE",
    "Received data size doesn't match expected size. Is there a distributed collective mismatch in your code?",
)
"""Of ranks that meet in different collectives: with `TORCH_DISTRIBUTED_DEBUG=DETAIL`, and over gloo."""

TWO_DEVICES = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
)
NO_GROUP = ("ValueError: Default process group has not been initialized, please make sure to call init_process_group.",)
NO_RANK = (
    "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, "
    "but not set",
)
PORT_TAKEN = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    "RuntimeError: Address already in use",
)
INVALID_ORDINAL = ("RuntimeError: CUDA error: invalid device ordinal",)
DUPLICATE_GPU = ("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 4000",)
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.",
)
FORKED = (
    "RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
    "'spawn' start method",
)
UNUSED = (
    "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. This error "
    "indicates that your module has parameters that were not used in producing loss.",
)
TWICE_READY = ("RuntimeError: Expected to mark a variable ready only once.",)
TORN_FILE = (
    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
    "EOFError: Ran out of input",
)
NO_SUCH_RANK = ("ValueError: Invalid rank 2, rank should be in the interval [0, 1]",)
NO_BACKEND = ("RuntimeError: No backend type associated with device type cpu",)
