"""Errors of the process group: how processes find each other, and what they pass to collectives."""

from __future__ import annotations

from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole

_PEER, _WAIT = FailureRole.PEER, FailureRole.WAIT

OBJECT_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"Tried to allocate (?P<more>[\d.]+) GiB.* (?:has a total capacity of |; )(?P<than>[\d.]+) GiB",
        "Ranks that exchange objects tell each other the sizes first, and what arrived as one is none: the exchange "
        "was given up on, as after a timeout, or other ranks called another collective.",
        "Look for the rank that did not come in time; let all call the same collectives in the same order.",
        role=_WAIT,
        likely=("GPU512", "GPU501"),
        beyond=1,
        inside=r"distributed_c10d\.py:\w+_object\w*$",
    ),
    ErrorText(
        r"Ran out of input|UnpicklingError|pickle data was truncated|invalid load key|DefaultCPUAllocator: |"
        r"Storage size calculation overflowed|negative dimension",
        "An object that ranks exchange arrived as something else: their collectives do not belong together.",
        "Let every rank call the same collectives in the same order, those of objects and of libraries as well.",
        likely=("GPU512", "GPU501"),
        inside=r":\w*(?:gather|broadcast|scatter|to_object|object_to|_object)\w*(?![\s\S]*:\w*load)",
    ),
)
"""Errors within collectives of objects, which say elsewhere what they say. They come before all others."""
GROUP_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"Default process group (?:has not been|is not) initialized",
        "Something needs the process group, which was never made, or not yet.",
        "Call `torch.distributed.init_process_group()` first, and start with torchrun.",
        likely=("GPU401", "GPU106"),
    ),
    ErrorText(
        r"initialize the default process group twice",
        "The process group was made a second time.",
        "Ask `torch.distributed.is_initialized()` first.",
        code="GPU410",
    ),
    ErrorText(
        r"Error initializing torch\.distributed using \S+ rendezvous: (?:rank|world size|port number) parameter "
        r"missing|port must have value from 0 to 65535|is absent in RendezvousParameters|Port is absent in endpoint|"
        r"DeepSpeed requires the LOCAL_RANK environment variable|LOCAL_RANK is not in the environment",
        "The process was not told its rank, or an address with a valid port.",
        "Start it with `torchrun --nproc-per-node=N`.",
        likely=("GPU403", "GPU422"),
    ),
    ErrorText(
        r"environment variable (?:RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK) expected|"
        r"KeyError: '(?:(?:LOCAL_)?RANK|WORLD_SIZE)'",
        "The program must be started by a launcher, and was started by `python`.",
        "Start it with `torchrun --nproc-per-node=N`.",
        likely=("GPU403", "GPU422"),
    ),
    ErrorText(
        r"'(?:Namespace|Args|Arguments|Config|CfgNode|EasyDict|AttrDict)' object has no attribute "
        r"'(?:rank|local_rank|world_size|distributed|gpu|dist_backend|dist_url)'",
        "The program asks for its rank, which it sets only where a launcher has started it.",
        "Start it with `torchrun --nproc-per-node=N`, or set the option.",
        likely=("GPU403", "GPU422"),
    ),
    ErrorText(
        r"Invalid rank \d+, rank should be in the interval",
        "The sampler was told a rank that does not exist.",
        "Let it ask the process group: leave `rank` and `num_replicas` out.",
        likely=("GPU305", "GPU408", "GPU415"),
    ),
    ErrorText(
        r"(?:new group's (?:rank|world size)|the new group's world size) should be (?:within|less or equal)|"
        r"split group's size should be less|must not exceed the world size|"
        r"(?:Group|Global) rank \S+ is not part of group",
        "A group is asked for ranks that this job does not have, or a rank asks a group that it is not in.",
        "Compare the ranks of the groups with the number of processes that were started.",
        likely=("GPU514",),
    ),
    ErrorText(
        r"unrecognized arguments: --local[-_]rank(?:[= ]\d+)?\s*$",
        "The launcher passes the local rank as an option that the program does not know in this spelling.",
        "Read `LOCAL_RANK` from the environment, and start with torchrun.",
        code="GPU411",
    ),
    ErrorText(
        r": error: (?:unrecognized arguments:|the following arguments are required: |argument [^:]+: |ambiguous op)",
        "The program does not know an option that it was started with, or lacks one.",
        "Compare the command with `--help` of the program: options of the launcher stand before the script, those of "
        "the program after it.",
        likely=("GPU411", "GPU421"),
        library="argparse",
    ),
    ErrorText(
        r"EADDRINUSE|[Aa]ddress already in use",
        "Another process listens on the port of the rendezvous: a second training, or one that did not end.",
        "Start with `torchrun --standalone`, or give each training a `--master-port` of its own.",
        likely=("GPU425", "GPU429"),
    ),
    ErrorText(
        r"(?:server socket|bind|listen)\b.*Cannot assign requested address|code: -99\b|OSError: \[Errno 99\]",
        "The address at which this process is to listen is not one of its node: `MASTER_ADDR` names another node, or "
        "a name stands for a wrong address.",
        "Let `MASTER_ADDR` name the node of rank 0, and `--node-rank` be 0 there only.",
        likely=("GPU429",),
    ),
    ErrorText(
        r"server socket\b.*(?:[Pp]ermission denied|EACCES)",
        "The port of the rendezvous is one at which only root may listen: those below 1024 mostly are.",
        "Take a `--master-port` above 1024; see whether a wrong argument has come into its place.",
    ),
    ErrorText(
        r"failed to listen on any\b",
        "The process that keeps the rendezvous could not listen on its port: mostly another process does, a second "
        "training, or one that did not end.",
        "The warnings before this line say why. Start with `torchrun --standalone`, or give each training a "
        "`--master-port` of its own.",
        likely=("GPU425", "GPU429"),
    ),
    ErrorText(
        r"Unsupported nproc_per_node value|nnodes=\S* is not in \"?MIN:MAX|"
        r"rendezvous (?:configuration option|backend) '\S+'|ValueError: (?:Cuda|Xpu) is not available",
        "torchrun was given an option with a value that it does not know.",
        "`torchrun --help` names them; `--nproc-per-node=gpu` needs a PyTorch that sees GPUs.",
        likely=("GPU421",),
    ),
    ErrorText(
        r"Timed out initializing process group in store based barrier on rank:? \d+.*\(world_size=(?P<than>\d+), "
        r"(?:worker_count|num_workers_joined)=(?P<more>\d+)",
        "More processes have counted themselves in than the group has: an earlier try or another job has used the same "
        "file, port or store, or more processes were started than `world_size` says.",
        "Give each try a port, or a file, of its own, end what is left of earlier ones, and start as many processes as "
        "`world_size`.",
        role=_WAIT,
        likely=("GPU425", "GPU426"),
        beyond=1,
    ),
    ErrorText(
        r"ss1\.ss_family == ss2\.ss_family",
        "gloo was given an address of IPv4 by one process and one of IPv6 by another.",
        "Name one interface on all nodes with `GLOO_SOCKET_IFNAME`, or let host names stand for one kind of address.",
        library="gloo",
    ),
    ErrorText(
        r"Gloo connectFullMesh failed|gloo/transport/tcp/pair\.\w+:\d+\] (?:connect |Connect timeout)",
        "gloo could not connect this process with the others: one of them has ended, or the address that it gave does "
        "not lead there, being of the wrong interface or of a host name that stands for 127.0.1.1.",
        "Look for a process that ended before; where there is none, `GLOO_SOCKET_IFNAME` names the interface that all "
        "nodes share.",
        role=_WAIT,
        library="gloo",
    ),
    ErrorText(
        r"Unable to find (?:address|interface) for|interface or hostname can't be empty|"
        r"makeDeviceForInterface|makeDeviceForHostname|resolve hostname to a \(local\) address|"
        r"no device found (?:matching|after excluding)|"
        r"Bootstrap : no socket interface found|NET/Socket : no (?:usable )?(?:listening )?interface found|"
        r"NET/IB : No IP interface found|No usable listening interface found",
        "The network interface that is named does not exist on this node, or has no address.",
        "Look at `NCCL_SOCKET_IFNAME` and `GLOO_SOCKET_IFNAME`: interfaces have different names on different nodes.",
        library="nccl",
    ),
    ErrorText(
        r"Detected mismatch between collectives on ranks|Mismatched collective detected",
        "The ranks have called different collectives, or with tensors of different shapes.",
        "Let every rank call the same collectives in the same order, with tensors of one shape.",
        likely=("GPU512", "GPU501", "GPU518"),
    ),
    ErrorText(
        r"Message truncated : received|message truncated : receiving",
        "NCCL got more or fewer bytes than it waited for: the ranks call different collectives, or with tensors of "
        "different sizes.",
        "Let every rank call the same collectives in the same order, with tensors of one shape.",
        likely=("GPU512", "GPU501", "GPU518"),
        library="nccl",
    ),
    ErrorText(
        r"Received data size doesn't match expected size|op\.preamble\.length <= op\.nbytes|enforce fail.*nbytes",
        "Collectives met that do not belong together: the ranks call them in different orders, some ranks call one "
        "that the others do not, or all call it with tensors of different sizes.",
        "Let every rank call the same collectives in the same order, with tensors of one shape.",
        likely=("GPU501", "GPU512", "GPU518"),
        library="gloo",
    ),
    ErrorText(
        r"No backend type associated with device type cpu|Tensors must be CUDA and dense",
        "A tensor on the CPU was passed to a collective of NCCL.",
        "Move it to the rank's GPU, or make the group with `cpu:gloo,cuda:nccl`.",
        code="GPU510",
    ),
    ErrorText(
        r"Tensors must be (?:contiguous|on distinct GPU devices|CUDA)|Tensors must have identical|"
        r"(?:Input )?[Tt]ensor data type is not supported for NCCL|Invalid scalar type|Invalid usage of tensors with "
        r"different dtypes|[Tt]ensor list (?:input|mustn't)|output tensor size must be equal to|"
        r"input tensor must be the same (?:size|type) as the output|Expected tensors? .*to be (?:the same|dense)|"
        r"unsupported data type|all_reduce does not support \S+ on complex tensors|Cannot use ReduceOp\.\w+ with",
        "A collective was given tensors that it does not take: of another dtype, size or layout.",
        "Make them contiguous, of one shape and of a dtype that the backend knows, as the text says.",
        likely=("GPU514",),
    ),
    ErrorText(
        r"(?:ProcessGroup\w*|[Bb]ackend '?\w+'?) does not support (?:\w+)|is only implemented for GLOO backend|"
        r"Unknown backend '|We don't know which communication backend|Distributed package doesn't have (?:MPI|Gloo|"
        r"XCCL)|Unknown c10d backend",
        "The backend of the process group does not have what was asked for.",
        "`nccl` on GPUs and `gloo` on CPUs; `cpu:gloo,cuda:nccl` makes both.",
        likely=("GPU407",),
    ),
    ErrorText(
        r"Must specify global_rank or group_rank|must (?:NOT )?be specified on (?:non-)?(?:destination|source) rank|"
        r"Invalid function argument\. Expected parameter|broadcast\(\) missing 1 required positional argument|"
        r"rank should not be the same as the rank of the current process",
        "A collective was called with arguments that it does not take.",
        "Follow the text.",
        likely=("GPU514",),
    ),
    ErrorText(
        r"RendezvousStateError|state object is corrupt",
        "The launchers of the nodes do not understand each other's state: mostly they are of different versions of "
        "PyTorch or Python.",
        "Install the same on all nodes.",
    ),
    ErrorText(
        r"received errors while waiting for send/recv from rank \d+[\s\S]*(?:Connection (?:closed|reset)|Broken pipe)|"
        r"possible application crash on rank \d+",
        "The rank that the text names had ended, or the connection to it broke, when this one wanted something of it.",
        "Look into the log of that rank.",
        role=_PEER,
    ),
    ErrorText(
        r"failed to pass monitoredBarrier|but received errors while waiting for send/recv from rank",
        "Some ranks, which the text names, did not reach the barrier: they came late, stand elsewhere or have ended.",
        "Look at what those ranks did instead.",
        role=_WAIT,
        likely=("GPU501", "GPU412"),
    ),
    ErrorText(
        r"^\s*AssertionError\s*$",
        "The process group is destroyed where none is left: it was never made in this process, or destroyed before.",
        "Ask `dist.is_initialized()` first, and destroy it in one place.",
        inside=r"distributed_c10d\.py:destroy_process_group$",
    ),
)
