"""What the errors of distributed training mean, as data: one record a text.

`pattern` is searched in the text of an error with its type in front (`RuntimeError: ...`), so it holds what is the same
on every machine: no address, number or path. The first record that matches counts; special ones stand before general
ones. `since` and `until` are versions of the library that raises it, and empty where the text has always been so.
"""

from __future__ import annotations

import enum
import re
from functools import cache

from gpudoctor.record import dataclass


class FailureRole(enum.Enum):
    """What an error says of the order in which ranks failed."""

    OWN = "own"
    """This process did, or met, something wrong itself."""
    PEER = "peer"
    """Another process had gone before."""
    WAIT = "wait"
    """Others did not come in time, or this process did not go on."""
    STOPPED = "stopped"
    """The launcher, the scheduler or a person ended it."""


@dataclass(frozen=True)
class ErrorText:
    """One text. `code` is the rule of the mistake behind it, where there is one and no other cause; `likely` names
    rules that are only the usual causes. `more_came`: it is meant only where more processes (`came`) have come than
    were `expected`, as groups of the pattern say."""

    pattern: str
    role: FailureRole
    means: str
    do: str = ""
    code: str = ""
    likely: tuple[str, ...] = ()
    library: str = "torch"
    since: str = ""
    until: str = ""
    more_came: bool = False


_OWN, _PEER, _WAIT, _STOPPED = FailureRole.OWN, FailureRole.PEER, FailureRole.WAIT, FailureRole.STOPPED

ERROR_TEXTS: tuple[ErrorText, ...] = (
    # --- memory ---
    ErrorText(
        r"(?:CUDA|HIP) out of memory|OutOfMemoryError: CUDA|ALLOCATION_FAILED|Failed to CUDA calloc|"
        r"CUDA error: out of memory|Cuda failure (?:\d+ )?'out of memory'",
        _OWN,
        "The GPU of this rank had no memory left.",
        "Lower the batch of each rank, accumulate gradients, or shard the model (FSDP). Where one rank alone runs out, "
        "look for what others put on its GPU: `map_location`, `cuda:0`, evaluation on rank 0.",
        likely=("GPU209", "GPU204", "GPU710"),
    ),
    ErrorText(
        r"NCCL WARN (?:Error(?: while creating shared memory segment|: failed to extend)|"
        r"Call to (?:posix_fallocate|shm_open|ftruncate|mmap) failed)|"
        r"creating shared memory segment \S*nccl|failed to extend /dev/shm/nccl",
        _OWN,
        "NCCL could not make the shared memory through which ranks of a node exchange data: mostly, /dev/shm is full.",
        "Give the container more (`--shm-size=16g`, `--ipc=host`), and look for what fills /dev/shm.",
        code="GPU431",
        library="nccl",
    ),
    ErrorText(
        r"DataLoader worker \(pid\S* [\d, ]+\) (?:is killed by signal: Bus error|exited unexpectedly.*shared memory)|"
        r"insufficient shared memory|creating shared memory segment|failed to extend /dev/shm|"
        r"No space left on device.*/dev/shm|unable to (?:mmap|write to file|open shared memory)",
        _OWN,
        "Workers of a loader ran out of shared memory.",
        "Give the container more (`--shm-size=16g`, `--ipc=host`), or lower `num_workers`.",
        code="GPU431",
    ),
    ErrorText(
        r"DataLoader worker \(pid\S* [\d, ]+\) is killed by signal: (?:Terminated|Interrupt|Hangup)",
        _STOPPED,
        "Workers of a loader were told to end, as they are when the job is stopped or their rank is.",
    ),
    ErrorText(
        r"DataLoader worker (?:\(pid\S* [\d, ]+\) )?exited unexpectedly with exit code",
        _OWN,
        "A worker of a loader ended by itself, and its error is lost: mostly an error outside of Python, or an exit in "
        "what reads the data.",
        "Run once with `num_workers=0`: the error is then raised in the rank itself.",
    ),
    ErrorText(
        r"DataLoader worker \(pid\S* [\d, ]+\) (?:is killed by signal: (?:Killed|Segmentation)|exited unexpectedly)",
        _OWN,
        "A worker of a loader was killed, mostly because the node had no memory left.",
        "Lower `num_workers` or what each worker holds, and look into the kernel's log for `Out of memory: Killed`.",
    ),
    ErrorText(
        r"oom[-_]kill|Out of memory: Killed|OOMKilled|task \d+: Out Of Memory",
        _OWN,
        "The node, or the job's share of it, had no memory left, and the kernel killed a process.",
        "Ask for more memory (`--mem`, the container's limit), or lower `num_workers` and what each rank loads.",
        library="kernel",
    ),
    ErrorText(
        r"Cannot allocate memory|DefaultCPUAllocator: (?:can't|not enough)|std::bad_alloc|\bMemoryError\b",
        _OWN,
        "The node had no memory left.",
        "Each rank loads its own copy: lower `num_workers`, map files instead of reading them, or ask for more memory.",
    ),
    ErrorText(
        r"\[Errno (?:28|122)\]|No space left on device|Disk quota exceeded|PytorchStreamWriter failed writing",
        _OWN,
        "A file could not be written: the disk, or the quota on it, is full, or the file system failed.",
        "`df -h`, `df -i` and `quota` on the node say which; keep fewer checkpoints.",
        library="kernel",
    ),
    ErrorText(
        r"\[Errno (?:5|116)\]|Stale file handle|Input/output error",
        _OWN,
        "The file system failed, or what is behind it (NFS, Lustre, a bucket) was gone for a moment.",
        "Try on this node whether the path can be read and written, and look into the kernel's log (`dmesg`).",
        library="kernel",
    ),
    ErrorText(
        r"Too many open files|received 0 items of ancdata",
        _OWN,
        "The process had as many files open as it is allowed to: tensors of loader workers are passed as files.",
        "Raise the limit (`ulimit -n`), or `torch.multiprocessing.set_sharing_strategy('file_system')`.",
    ),
    # --- wrapping ---
    ErrorText(
        r"Expected to have finished reduction in the prior iteration|"
        r"Parameters? (?:indices )?which did not receive grad for rank \d",
        _OWN,
        "Some parameters of the wrapped model got no gradient in this step, and DDP waits for them.",
        "Remove the layers from the model, use them, or wrap with `find_unused_parameters=True`. "
        "`TORCH_DISTRIBUTED_DEBUG=DETAIL` names them.",
        code="GPU112",
    ),
    ErrorText(
        r"Expected to mark a variable ready only once|has been marked as ready twice",
        _OWN,
        "A parameter was used by two backwards of one step: reentrant checkpointing, or two forwards that share it.",
        "Use `checkpoint(..., use_reentrant=False)`.",
        likely=("GPU708", "GPU707"),
    ),
    ErrorText(
        r"DDP expects same model across all ranks|appears not to match (?:sizes|strides) of the same param",
        _OWN,
        "The model is not the same on all ranks.",
        "Build it from the same settings on every rank, and nothing in it from the rank or from data.",
    ),
    ErrorText(
        r"DistributedDataParallel is not needed when a module doesn't have any parameters? that requires? a gradient",
        _OWN,
        "A module in which nothing is trained was wrapped.",
        "Wrap after the layers that train are unfrozen, or do not wrap it.",
        code="GPU118",
    ),
    ErrorText(
        r"module must (?:be on the same type of devices|have its parameters and buffers on device)|"
        r"device_ids and output_device arguments only work with single-device|"
        r"device_ids can only be None or contain a single element",
        _OWN,
        "The model is not on the GPU that its wrapper was told.",
        "Move the model to the rank's GPU first: `model.to(local_rank)`, then `DDP(model, device_ids=[local_rank])`.",
        likely=("GPU207", "GPU208"),
    ),
    ErrorText(
        r"'(?:DistributedDataParallel|DataParallel|FullyShardedDataParallel|OptimizedModule)' object has no attribute",
        _OWN,
        "An attribute of the model was read from its wrapper.",
        "Read it from the model inside: `model.module.…`.",
        code="GPU104",
    ),
    ErrorText(
        r"AttributeError: '\w+' object has no attribute 'module'",
        _OWN,
        "`.module` was read from a model that is not wrapped here: nothing wraps it on this path, or it was unwrapped "
        "before.",
        "Take the model itself, or `getattr(model, 'module', model)` where it may be either.",
        likely=("GPU104",),
    ),
    ErrorText(
        r"(?:Missing|Unexpected) key\(s\) in state_dict: \"module\.|"
        r"Missing key\(s\)[\s\S]*Unexpected key\(s\)[^:]*: \"module\.",
        _OWN,
        "The checkpoint has the names of the wrapper (`module.`), and the model does not, or the other way round.",
        "Save `model.module.state_dict()`.",
        code="GPU603",
    ),
    ErrorText(
        r"Error\(s\) in loading state_dict for|size mismatch for \S+: copying a param|"
        r"Size mismatch between saved torch\.Size",
        _OWN,
        "The checkpoint does not fit the model: names or shapes of parameters differ, or it holds the shards of "
        "another number of ranks.",
        "Build the model from the settings with which the checkpoint was written, and load it before the model is "
        "sharded or wrapped.",
        likely=("GPU603", "GPU934", "GPU935"),
    ),
    ErrorText(
        r"(?:Must flatten tensors with|requires) uniform `?requires_grad",
        _OWN,
        "FSDP makes one flat parameter of a module in which some parameters are trained and others are frozen, as with "
        "adapters.",
        "Wrap with `use_orig_params=True`, take `fully_shard`, or let the wrapping policy separate them.",
    ),
    ErrorText(
        r"(?:Must flatten tensors with|requires) uniform `?dtype",
        _OWN,
        "FSDP makes one flat parameter of a module whose parameters have different dtypes.",
        "Bring the parameters to one dtype before it is wrapped, or take `fully_shard`.",
    ),
    ErrorText(
        r"FSDP assumes \S+ is in the state_dict",
        _OWN,
        "FSDP met a state_dict with other names than its own: a hook or a wrapper has changed them.",
        "Ask for the state by `torch.distributed.checkpoint.state_dict.get_model_state_dict`.",
    ),
    ErrorText(
        r"modified by an inplace operation",
        _OWN,
        "A tensor that a backward needs was changed before it. Under DDP that often is a second forward in the same "
        "step, which copies the buffers again.",
        "Call the wrapped model once a step, or wrap with `broadcast_buffers=False`.",
        likely=("GPU117",),
    ),
    ErrorText(
        r"grad can be implicitly created only for scalar outputs",
        _OWN,
        "The loss has several numbers: `DataParallel` gathers one from each GPU.",
        "Call `loss.mean().backward()`.",
        likely=("GPU108",),
    ),
    ErrorText(
        r"model\W?parallel group is not initialized",
        _OWN,
        "A group of Megatron's is asked for that was never made, or made by another copy of the module.",
        "Call `initialize_model_parallel` first, and import Megatron by one name only.",
        library="megatron",
    ),
    ErrorText(
        r"world[_ ]size \(\d+\) is not divisible by",
        _OWN,
        "There are fewer processes than one copy of the model takes, or not a multiple of it: tensor times pipeline "
        "times context parallel size.",
        "Start that many, or lower the sizes.",
        library="megatron",
    ),
    ErrorText(
        r"found (?:NaN|Inf) in local (?:grad|forward loss)",
        _OWN,
        "The loss or a gradient of this rank is not a number, and Megatron stops before the others get it.",
        "Look at the batch of this rank; where it is only ever one node or GPU, have that examined.",
        library="megatron",
    ),
    # --- devices ---
    ErrorText(
        r"Expected all tensors to be on the same device|arguments are located on different GPUs",
        _OWN,
        "Tensors of one operation are on different devices.",
        "Move the batch, and what `forward` makes, to the rank's GPU.",
        likely=("GPU201", "GPU202", "GPU213", "GPU211", "GPU212", "GPU215"),
    ),
    ErrorText(
        r"Input type \([\w.]+\) and (?:weight|bias) type",
        _OWN,
        "The batch and the weights are on different devices, or have different types.",
        "Move both to the rank's GPU.",
        likely=("GPU201", "GPU202"),
    ),
    ErrorText(
        r"[Dd]uplicate GPU detected",
        _OWN,
        "Two ranks use the same GPU.",
        "Call `torch.cuda.set_device(int(os.environ['LOCAL_RANK']))` before the process group is made.",
        code="GPU204",
        library="nccl",
    ),
    ErrorText(
        r"Attempting to deserialize object on (?:a )?CUDA device",
        _OWN,
        "A checkpoint was saved from a GPU that this process does not have, and is loaded to the same place.",
        "Load it with `map_location='cpu'` or to the rank's own GPU, then load it into the model.",
        likely=("GPU209",),
    ),
    ErrorText(
        r"can't convert \w+:\d+ device type tensor to numpy",
        _OWN,
        "numpy was to read a tensor that is on a GPU.",
        "Copy it to the CPU first: `tensor.cpu().numpy()`, with `.detach()` where it has a gradient.",
    ),
    ErrorText(
        r"'lengths' argument should be a 1D CPU int64 tensor",
        _OWN,
        "The lengths of a packed sequence are on a GPU, and PyTorch wants them on the CPU.",
        "Pass `lengths.cpu()`. A wrapper with `device_ids` moves all that it is called with to the GPU.",
    ),
    ErrorText(
        r"Expected a '\w+' device type for generator but found",
        _OWN,
        "A random generator of one device was to draw numbers on another; a `DataLoader` that shuffles draws on the "
        "default device.",
        "Give it a generator of that device: `generator=torch.Generator(device=...)`.",
    ),
    ErrorText(
        r"invalid device ordinal|device index less than the number of accelerators available",
        _OWN,
        "A rank asked for a GPU that this node does not have, or does not show to it.",
        "Take `LOCAL_RANK`, not `RANK`, as the number of the GPU, and start no more processes than there are GPUs.",
        likely=("GPU205", "GPU423", "GPU428"),
    ),
    ErrorText(
        r"Cannot re-initialize CUDA in forked subprocess",
        _OWN,
        "CUDA was started before processes were forked.",
        "Use the start method `spawn`, or touch no GPU before.",
        likely=("GPU406", "GPU216"),
    ),
    ErrorText(
        r"device-side assert triggered|\.(?:cu|hip):\d+: .*[Aa]ssertion",
        _OWN,
        "A kernel was given an invalid value, mostly an index out of its range: labels, tokens, positions.",
        "Run again with `CUDA_LAUNCH_BLOCKING=1`, or on the CPU: the line that is named then is the right one.",
        library="cuda",
    ),
    ErrorText(
        r"illegal memory access|misaligned address|unspecified launch failure|an illegal instruction|"
        r"Memory access fault by GPU",
        _OWN,
        "A kernel read or wrote where it may not.",
        "Run again with `CUDA_LAUNCH_BLOCKING=1` (ROCm: `AMD_SERIALIZE_KERNEL=3`): the line named then is right.",
        library="cuda",
    ),
    ErrorText(
        r"uncorrectable ECC|Xid.*?: (?:48|63|64|74|79|92|94|95)\b|GPU has fallen off the bus|CUDA error: unknown error|"
        r"Unable to determine the device handle|GPU is lost",
        _OWN,
        "The GPU or its link has failed.",
        "Take the node out of service, and have it examined (`nvidia-smi -q`, `dcgmi diag -r 3`).",
        library="driver",
    ),
    ErrorText(
        r"no kernel image is available|not compatible with the current PyTorch installation",
        _OWN,
        "This build of PyTorch, or of an extension, has no kernels for this kind of GPU.",
        "Install a build for its compute capability.",
        library="cuda",
    ),
    ErrorText(
        r"driver (?:version is insufficient|on your system is too old)|forward compatibility was attempted",
        _OWN,
        "The driver is older than this build of PyTorch needs.",
        "Update the driver, or install a build for an older CUDA.",
        library="cuda",
    ),
    ErrorText(
        r"No CUDA GPUs are available|no CUDA-capable device|Torch not compiled with CUDA enabled|"
        r"ProcessGroupNCCL is only supported with GPUs",
        _OWN,
        "The process sees no GPU, or PyTorch was built for the CPU.",
        "Look at `CUDA_VISIBLE_DEVICES`, at what the scheduler gives each task, and at `torch.version.cuda`.",
        likely=("GPU210", "GPU428"),
    ),
    ErrorText(
        r"CUDA-capable device(?:\(s\) is/are|s are) busy or unavailable|exclusive process|device busy",
        _OWN,
        "Another process has the GPU for itself.",
        "End it (`nvidia-smi` names it); start no second job on the same GPUs.",
        library="cuda",
    ),
    ErrorText(
        r"CUBLAS_STATUS_|CUDNN_STATUS_|cusolver error",
        _OWN,
        "A library of CUDA failed: often memory that had run out, or an index out of its range before.",
        "Run again with `CUDA_LAUNCH_BLOCKING=1`, and with a smaller batch.",
        library="cuda",
    ),
    # --- the process group ---
    ErrorText(
        r"Default process group has not been initialized",
        _OWN,
        "Something needs the process group, which was never made, or not yet.",
        "Call `torch.distributed.init_process_group()` first, and start with torchrun.",
        likely=("GPU401", "GPU106"),
    ),
    ErrorText(
        r"initialize the default process group twice",
        _OWN,
        "The process group was made a second time.",
        "Ask `torch.distributed.is_initialized()` first.",
        code="GPU410",
    ),
    ErrorText(
        r"environment variable (?:RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK) expected|"
        r"KeyError: '(?:(?:LOCAL_)?RANK|WORLD_SIZE)'",
        _OWN,
        "The program must be started by a launcher, and was started by `python`.",
        "Start it with `torchrun --nproc-per-node=N`.",
        likely=("GPU403", "GPU422"),
    ),
    ErrorText(
        r"unrecognized arguments: --local[-_]rank(?:[= ]\d+)?\s*$",
        _OWN,
        "The launcher passes the local rank as an option that the program does not know in this spelling.",
        "Read `LOCAL_RANK` from the environment, and start with torchrun.",
        code="GPU411",
    ),
    ErrorText(
        r": error: (?:unrecognized arguments: |the following arguments are required: |argument [^:]+: |ambiguous op)",
        _OWN,
        "The program does not know an option that it was started with, or lacks one.",
        "Compare the command with `--help` of the program: options of the launcher stand before the script, those of "
        "the program after it.",
        likely=("GPU411", "GPU421"),
        library="argparse",
    ),
    ErrorText(
        r"EADDRINUSE|[Aa]ddress already in use|failed to listen on any local network address",
        _OWN,
        "Another process listens on the port of the rendezvous: a second training, or one that did not end.",
        "Start with `torchrun --standalone`, or give each training a `--master-port` of its own.",
        code="GPU425",
    ),
    ErrorText(
        r"Timed out initializing process group in store based barrier on rank:? \d+.*\(world_size=(?P<expected>\d+), "
        r"(?:worker_count|num_workers_joined)=(?P<came>\d+)",
        _WAIT,
        "More processes have counted themselves in than the group has: an earlier try or another job has used the same "
        "file, port or store, or more processes were started than `world_size` says.",
        "Give each try a port, or a file, of its own, end what is left of earlier ones, and start as many processes as "
        "`world_size`.",
        likely=("GPU425", "GPU426"),
        more_came=True,
    ),
    ErrorText(
        r"(?:socketStartConnect|socketPollConnect|socketFinalizeConnect|NCCL WARN.*[Cc]onnect)\b.*"
        r"(?:No route to host|Network is unreachable|timed out)",
        _OWN,
        "NCCL of this rank does not reach the address of another rank: the interface that NCCL has chosen does not "
        "lead there, or a firewall is between the nodes.",
        "`NCCL_SOCKET_IFNAME` names the interface that all nodes share; `NCCL_DEBUG=INFO` says which one was taken.",
        library="nccl",
    ),
    ErrorText(
        r"[Cc]onnect to \S+<\d+> failed|(?:socketPollConnect|socketFinalizeConnect|NCCL WARN.*[Cc]onnect)\b.*"
        r"(?:Software caused connection abort|Connection refused|Operation now in progress)",
        _WAIT,
        "NCCL of this rank could not connect to another one: the process there has ended, or the address is of an "
        "interface that does not lead there, as 127.0.0.1 leads to no other node.",
        "Look for a rank that failed before; where there is none, `NCCL_SOCKET_IFNAME` names the interface that all "
        "nodes share, and `NCCL_DEBUG=INFO` says which one was taken.",
        library="nccl",
    ),
    ErrorText(
        r"rank \d+ of \d+ ranks has already checked in",
        _OWN,
        "Two processes have come to NCCL with one rank.",
        "Give each process a rank of its own: with `--node-rank`, which differs between nodes, or from the scheduler.",
        likely=("GPU429", "GPU403"),
        library="nccl",
    ),
    ErrorText(
        r"ss1\.ss_family == ss2\.ss_family",
        _OWN,
        "gloo was given an address of IPv4 by one process and one of IPv6 by another.",
        "Name one interface on all nodes with `GLOO_SOCKET_IFNAME`, or let host names stand for one kind of address.",
        library="gloo",
    ),
    ErrorText(
        r"Gloo connectFullMesh failed|gloo/transport/tcp/pair\.\w+:\d+\] (?:connect |Connect timeout)",
        _WAIT,
        "gloo could not connect this process with the others: one of them has ended, or the address that it gave does "
        "not lead there, being of the wrong interface or of a host name that stands for 127.0.1.1.",
        "Look for a process that ended before; where there is none, `GLOO_SOCKET_IFNAME` names the interface that all "
        "nodes share.",
        library="gloo",
    ),
    ErrorText(
        r"waiting for clients\. \d+/\d+ clients joined|Timed out initializing process group in store based barrier|"
        r"RendezvousTimeoutError|RendezvousConnectionError|failed to connect to|client socket has (?:timed out|failed)|"
        r"No route to host|Name or service not known|getaddrinfo|Connection refused",
        _WAIT,
        "Not all processes have found each other: one was never started, died before, or has another address or port.",
        "Compare `--nnodes`, `--node-rank` and the address on all nodes, and look for the one that is missing.",
        likely=("GPU429", "GPU403"),
    ),
    ErrorText(
        r"disagreement between rank\d+ and rank\d+",
        _OWN,
        "DeepSpeed's ZeRO-3 gathers parameters in the order of the modules, and the ranks went through them in "
        "different orders: a branch on data or the rank, or experts that only some ranks use.",
        "Let every rank call the same modules in the same order.",
        likely=("GPU512",),
        library="deepspeed",
    ),
    ErrorText(
        r"'active_sub_modules': (?:\{|set\()|still have inflight params",
        _OWN,
        "DeepSpeed's ZeRO-3 met a parameter that was not there when it was used, or still in use when it was released: "
        "it is used outside of the forward of its module, or by two modules.",
        "Gather it (`deepspeed.zero.GatheredParameters`) where it is used otherwise.",
        library="deepspeed",
    ),
    ErrorText(
        r"Detected mismatch between collectives on ranks|Mismatched collective detected",
        _OWN,
        "The ranks have called different collectives, or with tensors of different shapes.",
        "Let every rank call the same collectives in the same order, with tensors of one shape.",
        likely=("GPU512", "GPU501"),
    ),
    ErrorText(
        r"Cannot apply desired operation due to shape mismatches|DistributedOperationException",
        _OWN,
        "Accelerate has compared what the ranks pass to a collective, and the shapes differ.",
        "Pad to one shape first (`accelerator.pad_across_processes`), or give each rank batches of one size.",
        library="accelerate",
    ),
    ErrorText(
        r"Received data size doesn't match expected size|op\.preamble\.length <= op\.nbytes|enforce fail.*nbytes",
        _OWN,
        "Collectives met that do not belong together: the ranks call them in different orders, or some ranks call one "
        "that the others do not.",
        "Let every rank call the same collectives in the same order.",
        likely=("GPU501", "GPU512"),
        library="gloo",
    ),
    ErrorText(
        r"No backend type associated with device type cpu|Tensors must be CUDA and dense",
        _OWN,
        "A tensor on the CPU was passed to a collective of NCCL.",
        "Move it to the rank's GPU, or make the group with `cpu:gloo,cuda:nccl`.",
        code="GPU510",
    ),
    ErrorText(
        r"failed to pass monitoredBarrier|but received errors while waiting for send/recv from rank",
        _WAIT,
        "Some ranks did not reach the barrier in its time; the text names them.",
        "Look at what those ranks did instead.",
        likely=("GPU501", "GPU412"),
    ),
    # --- those who wait, and those who follow ---
    ErrorText(
        r"watchdog got stuck|Heartbeat monitor timed out",
        _WAIT,
        "NCCL's own thread did not get to work: a kernel or a call of CUDA is stuck, or a thread keeps Python's lock.",
        "Take stacks of the rank (`py-spy dump --native`) while it is stuck.",
        library="nccl",
        since="2.2",
    ),
    ErrorText(
        r"Watchdog caught co|collective operation timeout|Timed out waiting \d+ms for|"
        r"wait timeout after \d+ms|Socket Timeout|Application timeout caused pair closure|Store-based barrier|"
        r"DistStoreError: (?:Timed out|wait timeout)|Timeout waiting for key",
        _WAIT,
        "A collective did not end in its time: some rank did not call it, came late, or the network hung.",
        likely=("GPU501", "GPU502", "GPU503", "GPU412"),
    ),
    ErrorText(
        r"waiting for remainder of ranks|(?:missing|ready) ranks: ",
        _WAIT,
        "Some ranks did not submit a tensor that the others wait for: they stand elsewhere, have ended, or submit "
        "others.",
        "Look at what the missing ranks do at this time.",
        likely=("GPU501", "GPU512"),
        library="horovod",
    ),
    ErrorText(
        r"RendezvousClosedError",
        _PEER,
        "The launchers of the nodes had closed their rendezvous: the launcher of another node had ended before.",
    ),
    ErrorText(
        r"A worker died or was killed|Worker unexpectedly exits with a connection error",
        _OWN,
        "A process of Ray ended without an exception: killed by the kernel for memory, by somebody, or by native code.",
        "Look into its own log (`/tmp/ray/session_latest/logs/worker-*`) and the kernel's (`dmesg`).",
        library="ray",
    ),
    ErrorText(
        r"Received 1 death signal|got signal: 1\b",
        _STOPPED,
        "The terminal or the connection that the job was started in was closed (SIGHUP).",
        "Start it in `tmux` or under a scheduler: `nohup` does not help, because torch's launcher listens to this "
        "signal itself.",
    ),
    ErrorText(
        r"NET/IB\b.*Got completion .*with (?:status=|error )(?:5|12|13|14)\b",
        _WAIT,
        "The other side of an InfiniBand connection did not answer: its process has ended, or its port or the link is "
        "down.",
        "Look for a process that failed before; where there is none, examine the ports of both nodes (`ibstat`, "
        "`perfquery`).",
        library="nccl",
    ),
    ErrorText(
        r"NET/IB\b.*(?:Got completion .*with (?:status=|error )[1-9]|[Aa]sync (?:fatal )?event)",
        _OWN,
        "InfiniBand has refused or lost a transfer between two nodes: the adapter, its driver, or memory that it may "
        "not read.",
        "`NCCL_IB_DISABLE=1` and `NCCL_NET_GDR_LEVEL=LOC` tell these apart; compare drivers and settings of the nodes.",
        library="nccl",
    ),
    ErrorText(
        r"Horovod has been shut down|"
        r"ncclRemoteError|remote process (?:has )?exit|Connection closed by (?:remote )?peer|Connection reset by peer|"
        r"Broken pipe|Connection was likely closed|Did the remote server shutdown|socketProgress|socketPollConnect|"
        r"Call to recv from .* failed|Read error \[|Socket closed|peer .* (?:has )?(?:died|left)|"
        r"NCCL communicator was aborted|ncclCommAbort|sendBytes failed|recvValue failed|failed to recv, got 0 bytes",
        _PEER,
        "Another process of the job had ended before, or, between nodes, the connection broke: look for the one that "
        "failed first.",
    ),
    ErrorText(
        r"SignalException: Process \d+ got signal|KeyboardInterrupt|got signal: (?:15|2)|SIGTERM|DUE TO TIME LIMIT|"
        r"Received \d+ death signal|"
        r"CANCELLED AT|terminated with signal SIGTERM",
        _STOPPED,
        "The process was told to end: by its launcher, the scheduler or a person.",
    ),
    ErrorText(
        r"Invalid config \w+ attribute value|undefined symbol: nccl[A-Z]\w+",
        _OWN,
        "The NCCL that is loaded is of another version than the one for which PyTorch was built.",
        "Keep one: `pip list | grep nccl` and `LD_LIBRARY_PATH` say where it comes from; reinstall PyTorch with the "
        "one that it asks for.",
        library="nccl",
    ),
    ErrorText(
        r"ncclInvalidArgument|NCCL error in: \S+ invalid argument",
        _OWN,
        "NCCL was given something that it refuses: often a tensor on a GPU that is not this rank's.",
        "`NCCL_DEBUG=WARN` says what; call `torch.cuda.set_device(local_rank)` before the process group is made.",
        likely=("GPU204", "GPU206"),
        library="nccl",
    ),
    ErrorText(
        r"Distributed package doesn't have NCCL",
        _OWN,
        "This build of PyTorch has no NCCL: those for Windows, macOS and the CPU have none.",
        "Install a build with CUDA for Linux (on Windows, in WSL), or use the backend `gloo`.",
    ),
    ErrorText(
        r"execve\(\): \S+: No such file or directory",
        _OWN,
        "The scheduler did not find the program to start on this node.",
        "Activate the environment in the job's script, or give the whole path.",
        library="slurm",
    ),
    ErrorText(
        r"ncclInvalidUsage|NCCL error in: \S+ invalid usage",
        _OWN,
        "NCCL was used in a way that it refuses: often two ranks on one GPU, or ranks that disagree.",
        "`NCCL_DEBUG=WARN` says what.",
        likely=("GPU204", "GPU206"),
        library="nccl",
    ),
    ErrorText(
        r"peer access is not supported",
        _OWN,
        "These GPUs cannot read each other's memory, and NCCL tried to.",
        "Set `NCCL_P2P_DISABLE=1` for every rank (under Ray, in its `runtime_env`), or use GPUs that are connected.",
        library="nccl",
    ),
    ErrorText(
        r"ncclUnhandledCudaError|unhandled cuda error|NCCL WARN Cuda failure",
        _OWN,
        "A call of CUDA inside of NCCL failed.",
        "`NCCL_DEBUG=INFO` says which; often memory has run out, or peers cannot reach each other.",
        library="nccl",
    ),
    ErrorText(
        r"ibv_\w+ failed",
        _OWN,
        "A call of InfiniBand failed: the adapter, its port or its settings, or the memory that it may lock.",
        "Compare `ibstat` and `ulimit -l` on the nodes; `NCCL_IB_HCA` names the adapters to use, `NCCL_IB_DISABLE=1` "
        "tries without them.",
        library="nccl",
    ),
    ErrorText(
        r"ncclSystemError|unhandled system error|no socket interface found",
        _OWN,
        "NCCL could not use the network, or the shared memory, of the node.",
        "`NCCL_DEBUG=INFO` says what failed; often `NCCL_SOCKET_IFNAME` names the wrong interface, or /dev/shm is "
        "full.",
        likely=("GPU431",),
        library="nccl",
    ),
    ErrorText(
        r"ncclInternalError|internal error - please report|NCCL error in: \S+ internal error",
        _OWN,
        "NCCL stopped on an error of its own: often another process had gone, or versions or topologies of the nodes "
        "differ.",
        "Look for a process that failed before; `NCCL_DEBUG=INFO` says where NCCL was.",
        library="nccl",
    ),
    ErrorText(
        r"INTERNAL ASSERT FAILED",
        _OWN,
        "PyTorch stopped on an error of its own.",
        library="torch",
    ),
    ErrorText(
        r"CUDA error: (?:the )?launch timed out|CUDA error",
        _OWN,
        "A call of CUDA failed; it may have been an earlier one than the line that is named.",
        "Run again with `CUDA_LAUNCH_BLOCKING=1`.",
        library="cuda",
    ),
    ErrorText(
        r"Caught signal 7|Signal: Bus error|SIGBUS",
        _OWN,
        "The process was killed by a bus error: mostly shared memory that is full, or a file that was cut under it.",
        "Give the container more (`--shm-size=16g`, `--ipc=host`).",
        likely=("GPU431",),
    ),
    ErrorText(
        r"Segmentation fault|Bus error|Signal 11|SIGSEGV|Caught signal 11|exit code -11|"
        r"access violation|heap corruption",
        _OWN,
        "The process was killed by an error in native code: an extension, a driver, or shared memory that is full.",
        "Start it with `python -X faulthandler`, which prints where Python was.",
    ),
    ErrorText(
        r"SIGFPE|SIGILL",
        _OWN,
        "Native code did what the processor refuses: it divided by zero (SIGFPE), or used an instruction that this "
        "kind of processor does not have (SIGILL).",
        "Start it with `python -X faulthandler`, which prints where Python was, and update the library that is named: "
        "it may be built for another machine.",
    ),
    ErrorText(
        r"can't open file '[^']*': \[Errno 2\]",
        _OWN,
        "Python did not find the script that it was told to run.",
        "Start from the folder that the path begins in, or give the whole path; where SLURM runs a copy of the job's "
        "script, `$0` is that copy.",
        library="python",
    ),
    ErrorText(
        r"FileNotFoundError: \[Errno 2\]",
        _OWN,
        "A file or a folder is not there: the path is wrong, this node does not have it, or another rank was still to "
        "write it.",
        "Look for it on the node of this rank; let ranks wait (`barrier`) for what one of them writes.",
        likely=("GPU604", "GPU610"),
        library="python",
    ),
    ErrorText(
        r"stack expects each tensor to be equal size",
        _OWN,
        "The samples of a batch have different shapes, and the loader stacks them as they are.",
        "Crop or pad in the data set, or give the loader a `collate_fn` that does; run over the data set once alone to "
        "find the samples.",
    ),
    ErrorText(
        r"wandb\.(?:\w+\.)*\w*(?:CommError|UsageError|AuthenticationError)",
        _OWN,
        "Weights & Biases did not take the run: no permission, no key, or no network on this node.",
        "Log on rank 0 only, and try `WANDB_MODE=offline`, or `wandb login` on the node.",
        library="wandb",
    ),
    ErrorText(
        r"ModuleNotFoundError: No module named",
        _OWN,
        "A package or a module is not there in the environment, or on the path, of this process.",
        "Install it in the environment of the job on each node, or start from the folder that has it.",
        library="python",
    ),
    ErrorText(
        r"SIGABRT|Aborted",
        _OWN,
        "Native code ended the process: the lines before this one say why.",
    ),
)

OF_LAUNCHERS = (
    "ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException",
)  # fmt: skip
"""Exceptions by which a launcher says that one of its processes failed."""
QUOTES_ITS_RANK = "ProcessRaisedException"
"""The one of them that holds the traceback of the process."""


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], ErrorText], ...]:
    return tuple((re.compile(each.pattern), each) for each in ERROR_TEXTS)


def meaning_of(text: str) -> ErrorText | None:
    """The record that a text matches, None where nobody has declared it."""
    return next((each for pattern, each in _compiled() if _means(each, pattern.search(text))), None)


def _means(each: ErrorText, found: re.Match[str] | None) -> bool:
    return found is not None and (not each.more_came or int(found["came"]) > int(found["expected"]))
