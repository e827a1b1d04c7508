"""What NCCL warns of, where the line says why, and what it only says has failed."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole

_nccl = partial(ErrorText, library="nccl")

_WAIT = FailureRole.WAIT

NCCL_TEXTS: tuple[ErrorText, ...] = (
    _nccl(
        r"(?:socketStartConnect|socketPollConnect|socketFinalizeConnect|NCCL WARN.*[Cc]onnect)\b.*"
        r"(?:No route to host|Network is unreachable|timed out)",
        "NCCL of this rank does not reach the address of another rank: the interface that NCCL has chosen does not "
        "lead there, or a firewall is between the nodes.",
        "`NCCL_SOCKET_IFNAME` names the interface that all nodes share; `NCCL_DEBUG=INFO` says which one was taken.",
    ),
    _nccl(
        r"[Cc]onnect to \S+<\d+> failed|(?:socketPollConnect|socketFinalizeConnect|NCCL WARN.*[Cc]onnect)\b.*"
        r"(?:Software caused connection abort|Connection refused|Operation now in progress)",
        "NCCL of this rank could not connect to another one: the process there has ended, or the address is of an "
        "interface that does not lead there, as 127.0.0.1 leads to no other node.",
        "Look for a rank that failed before; where there is none, `NCCL_SOCKET_IFNAME` names the interface that all "
        "nodes share, and `NCCL_DEBUG=INFO` says which one was taken.",
        role=_WAIT,
    ),
    _nccl(
        r"rank \d+ of \d+ ranks has already checked in",
        "Two processes have come to NCCL with one rank.",
        "Give each process a rank of its own: with `--node-rank`, which differs between nodes, or from the scheduler.",
        likely=("GPU429", "GPU403"),
    ),
    _nccl(
        r"Invalid rank requested : \d+/\d+",
        "A process has a rank that its world does not have: they count from 0 to one less than the world's size.",
        "Count the processes that start: the size must be all of them, of all nodes.",
        likely=("GPU403",),
    ),
    _nccl(
        r"Mismatched NCCL version detected|NCCL version mismatch with remote peer|"
        r"NCCL library is (?:too old|not backwards compatible)|compiled with too old version of NCCL",
        "The ranks have loaded different versions of NCCL, or another one than PyTorch was built for.",
        "Install the same PyTorch on all nodes, and look at `LD_LIBRARY_PATH` for another libnccl.",
    ),
    _nccl(
        r"Failed to bind NVLink SHARP|NVLS Multicast|cuMulticast\w+",
        "NCCL could not set up the multicast of NVSwitch (NVLS): memory is short, or the Fabric Manager is not well.",
        "`NCCL_NVLS_ENABLE=0` goes without; `systemctl status nvidia-fabricmanager` on the node.",
    ),
    _nccl(
        r"NCCL WARN nvml\w+\(\) failed",
        "The driver does not tell NCCL of a GPU that it is to use: the container sees others than those that CUDA "
        "shows, or its NVML is not the one of the driver.",
        "Give the container all GPUs of the node, and choose by `CUDA_VISIBLE_DEVICES`; `nvidia-smi -L` inside of it "
        "must list them.",
    ),
    _nccl(
        r"MNNVL .* is available but not working",
        "The NVLink between nodes is there and not usable: the service or the channel for it (IMEX) is not set up.",
        "`nvidia-imex-ctl -N` on the nodes; `NCCL_MNNVL_ENABLE=0` goes without.",
    ),
    _nccl(
        r"ibv_reg_mr\S* failed with error Bad address",
        "An adapter of InfiniBand or RoCE cannot reach memory of a GPU that NCCL gives it.",
        "Load the driver that joins the two on each node (`modprobe nvidia-peermem`), or go without "
        "(`NCCL_NET_GDR_LEVEL=LOC`).",
    ),
    _nccl(
        r"Call to ibv_reg_mr\S* failed|ibv_reg_mr\S* failed with error Cannot allocate memory|"
        r"ibv_create_cq\S* failed.*Cannot allocate memory",
        "InfiniBand may not lock the memory that NCCL gives it.",
        "`ulimit -l unlimited` (for containers `--ulimit memlock=-1`), and under SLURM in its own limits.",
    ),
    _nccl(
        r"ibv_modify_qp failed .*(?:timed out|110|unreachable|101|Invalid argument|22\b|No such device|19\b)",
        "Two adapters of InfiniBand or RoCE do not reach each other: the port is down, they are of different networks, "
        "or the index of the address (GID) is wrong.",
        "`NCCL_IB_HCA` names the adapters, `NCCL_IB_GID_INDEX` the address of RoCE (often 3); `show_gids` lists them.",
    ),
    _nccl(
        r"Remote \S+ device is incompatible with the local|Attempted to connect incompatible devices",
        "NCCL tried to join an adapter of InfiniBand with one of RoCE.",
        "`NCCL_IB_HCA` names those to use, of one kind on all nodes.",
    ),
    _nccl(
        r"Detected mixed local (?:CollNet|Net) device counts",
        "The nodes offer NCCL different numbers of network adapters.",
        "Compare `ibstat` on the nodes; `NCCL_IB_HCA` names those that all have.",
    ),
    _nccl(
        r"Failed to find reverse path|"
        r"could not find (?:CPU|DEV)|Error : ring \d+ does not|(?:XML|Attribute \S+ of node)\b.*(?:Mismatch|not found)|"
        r"Could not find real path of|No transport found for rank",
        "NCCL does not understand the topology of this node, as containers and virtual machines show it.",
        "Mount /sys into the container, or name a file with `NCCL_TOPO_FILE`; `NCCL_IGNORE_DISABLED_P2P=1` may help.",
    ),
)
VAGUE_NCCL_TEXTS: tuple[ErrorText, ...] = (
    _nccl(
        r"Invalid config \w+ attribute value|undefined symbol: nccl[A-Z]\w+",
        "The NCCL that is loaded is of another version than the one for which PyTorch was built.",
        "Keep one: `pip list | grep nccl` and `LD_LIBRARY_PATH` say where it comes from; reinstall PyTorch with the "
        "one that it asks for.",
    ),
    _nccl(
        r"ncclInvalidArgument|NCCL error in: \S+ invalid argument",
        "NCCL was given something that it refuses: often a tensor on a GPU that is not this rank's.",
        "`NCCL_DEBUG=WARN` says what; call `torch.cuda.set_device(local_rank)` before the process group is made.",
        likely=("GPU204", "GPU206"),
    ),
    ErrorText(
        r"Distributed package doesn't have NCCL",
        "This build of PyTorch has no NCCL: those for Windows, macOS and the CPU have none.",
        "Install a build with CUDA for Linux (on Windows, in WSL), or use the backend `gloo`.",
    ),
    _nccl(
        r"ncclInvalidUsage|NCCL error in: \S+ invalid usage",
        "NCCL was used in a way that it refuses: often two ranks on one GPU, or ranks that disagree.",
        "`NCCL_DEBUG=WARN` says what.",
        likely=("GPU204", "GPU206"),
    ),
    _nccl(
        r"peer access is not supported",
        "These GPUs cannot read each other's memory, and NCCL tried to.",
        "Set `NCCL_P2P_DISABLE=1` for every rank (under Ray, in its `runtime_env`), or use GPUs that are connected.",
    ),
    _nccl(
        r"ncclUnhandledCudaError|unhandled cuda error|NCCL WARN Cuda failure",
        "A call of CUDA inside of NCCL failed.",
        "`NCCL_DEBUG=INFO` says which; often memory has run out, or peers cannot reach each other.",
    ),
    _nccl(
        r"mlx[45]: \S+: got completion with error",
        "An adapter of InfiniBand or RoCE reports that an operation failed: the other side has ended or no longer "
        "answers, or the memory is not its own.",
        "Look for a rank that failed before; where there is none, read the counters of the ports and the switch.",
        role=_WAIT,
    ),
    _nccl(
        r"ibv_\w+ failed",
        "A call of InfiniBand failed: the adapter, its port or its settings, or the memory that it may lock.",
        "Compare `ibstat` and `ulimit -l` on the nodes; `NCCL_IB_HCA` names the adapters to use, `NCCL_IB_DISABLE=1` "
        "tries without them.",
    ),
    _nccl(
        r"ncclSystemError|unhandled system error|no socket interface found",
        "NCCL could not use the network, or the shared memory, of the node.",
        "`NCCL_DEBUG=INFO` says what failed; often `NCCL_SOCKET_IFNAME` names the wrong interface, or /dev/shm is "
        "full.",
        likely=("GPU431",),
    ),
    _nccl(
        r"ncclInternalError|internal error - please report|NCCL error in: \S+ internal error",
        "NCCL stopped on an error of its own: often another process had gone, or versions or topologies of the nodes "
        "differ.",
        "Look for a process that failed before; `NCCL_DEBUG=INFO` says where NCCL was.",
    ),
)
