"""Errors of memory, shared memory, disks and other things of which a node has a limited amount."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole

_kernel = partial(ErrorText, library="kernel")

_STOPPED = FailureRole.STOPPED

MEMORY_TEXTS: tuple[ErrorText, ...] = (
    _kernel(
        r"\[WinError 1455\]",
        "Windows has no more memory to promise: its page file is too small for what all processes load, and each "
        "worker of a DataLoader loads torch's libraries anew.",
        "Take fewer workers (`num_workers`), or give Windows a larger page file.",
    ),
    ErrorText(
        r"out of memory.* total capaci?ty of (?P<more>[\d.]+) GiB of which [\d.]+ (?:MiB|bytes) is free.* "
        r"this process has (?P<than>[\d.]+) GiB memory in use",
        "The GPU of this rank had no memory left, and others hold most of it: other ranks, another job, or a process "
        "that was left from an earlier run.",
        "`nvidia-smi` on the node shows whose they are. Each rank takes its own GPU with "
        "`torch.cuda.set_device(local_rank)` before it uses one, and loads with `map_location`.",
        likely=("GPU204", "GPU209"),
        beyond=2,
    ),
    ErrorText(
        r"(?:CUDA|HIP|NPU|XPU|MUSA) out of memory|OutOfMemoryError: CUDA|ALLOCATION_FAILED|Failed to CUDA calloc|"
        r"CUDA error: out of memory|Cuda failure (?:\d+ )?'out of memory'",
        "The GPU of this rank had no memory left.",
        "Lower the batch of each rank, accumulate gradients, or shard the model (FSDP). Where one rank alone runs out, "
        "look for what others put on its GPU: `map_location`, `cuda:0`, evaluation on rank 0.",
        likely=("GPU209", "GPU204", "GPU710"),
    ),
    ErrorText(
        r"NCCL WARN (?:Error(?: while creating shared memory segment|: failed to extend)|"
        r"Call to (?:posix_fallocate|shm_open|ftruncate|mmap) failed)|"
        r"creating shared memory segment \S*nccl|failed to extend /dev/shm/nccl",
        "NCCL could not make the shared memory through which ranks of a node exchange data: mostly, /dev/shm is full.",
        "Give the container more (`--shm-size=16g`, `--ipc=host`), and look for what fills /dev/shm.",
        code="GPU431",
        library="nccl",
    ),
    ErrorText(
        r"memory allocation of \d+ bytes failed",
        "The node, or the job's share of it, had no memory left for a library written in Rust, such as tokenizers.",
        "Ask for more memory (`--mem`, the container's limit), or lower `num_workers` and what each rank loads.",
        library="rust",
    ),
    ErrorText(
        r"Too many open files|received 0 items of ancdata",
        "The process had as many files open as it is allowed to: tensors of loader workers are passed as files.",
        "Raise the limit (`ulimit -n`), or `torch.multiprocessing.set_sharing_strategy('file_system')`.",
    ),
    ErrorText(
        r"unable to open shared memory object \S+ in read.write mode: No such file or directory|"
        r"torch_shm_manager|(?:Connection|connect) .*torch_shm",
        "A tensor that another process had shared was gone: that process had ended, or the folder of temporary files "
        "was cleared.",
        "Look for a worker or a rank that ended before.",
    ),
    ErrorText(
        r"",
        "A thread that serves a loader lost a worker, or the process that had ended: what it says follows that.",
        "Look for the error of the worker, or of the rank.",
        role=FailureRole.PEER,
        inside=r"pin_memory\.py:_pin_memory_loop",
    ),
    ErrorText(
        r"(?:UnpicklingError|EOFError|BrokenPipeError|ConnectionResetError|FileNotFoundError)",
        "A process was being started when the one that starts it ended.",
        "Look for the error of that one.",
        role=FailureRole.PEER,
        inside=r"spawn\.py:_main(?:\n(?:reduction|connection|synchronize|resource_\w+)\.py:\w+)*$",
    ),
    ErrorText(
        r"DataLoader worker \(pid\S* [\d, ]+\) is killed by signal: Bus error|insufficient shared memory",
        "A worker of a loader was killed by a bus error: mostly shared memory is full, else a file that it had mapped "
        "(LMDB, `np.memmap`) was cut, or its disk failed; torch prints the same of both.",
        "Give the container more shared memory (`--shm-size=16g`, `--ipc=host`), or lower `num_workers`; where "
        "`df -h /dev/shm` shows room, look at the files that the dataset maps.",
        likely=("GPU431",),
    ),
    ErrorText(
        r"DataLoader worker \(pid\S* [\d, ]+\) exited unexpectedly.*shared memory|creating shared memory segment|"
        r"failed to extend /dev/shm|No space left on device.*/dev/shm|"
        r"unable to (?:mmap|write to file|open shared memory)",
        "Workers of a loader ran out of shared memory.",
        "Give the container more (`--shm-size=16g`, `--ipc=host`), or lower `num_workers`.",
        code="GPU431",
    ),
    ErrorText(
        r"DataLoader worker \(pid\S* [\d, ]+\) is killed by signal: (?:Terminated|Interrupt)",
        "Workers of a loader were told to end, as they are when the job is stopped or their rank is.",
        role=_STOPPED,
    ),
    ErrorText(
        r"DataLoader worker \(pid\S* [\d, ]+\) is killed by signal: Segmentation",
        "A worker of a loader was killed by an error in native code, in what reads or transforms the data.",
        "Run once with `num_workers=0` and `python -X faulthandler`, which prints where Python was. Files and "
        "databases that were opened before the workers were forked (LMDB, HDF5) are a usual case: open them in the "
        "worker.",
    ),
    ErrorText(
        r"DataLoader worker (?:\(pid\S* [\d, ]+\) )?exited unexpectedly with exit code",
        "A worker of a loader ended by itself, and its error is lost: mostly an error outside of Python, or an exit in "
        "what reads the data.",
        "Run once with `num_workers=0`: the error is then raised in the rank itself.",
    ),
    ErrorText(
        r"DataLoader timed out after \d+",
        "The workers of a loader did not bring a batch in its `timeout`: reading is slow, or a worker hangs.",
        "Take a stack of the workers (`py-spy dump`); raise `timeout`, or look at the file system.",
        likely=("GPU318",),
    ),
    ErrorText(
        r"Pin memory thread exited unexpectedly|DataLoader worker \(pid\S* [\d, ]+\) is killed by signal: Aborted",
        "A thread or a worker of a loader was ended by native code: the lines before say why.",
        "Run once with `num_workers=0` and `pin_memory=False`.",
    ),
    ErrorText(
        r"DataLoader worker \(pid\S* [\d, ]+\) (?:is killed by signal: Killed|exited unexpectedly)",
        "A worker of a loader was killed, mostly because the node had no memory left.",
        "Lower `num_workers` or what each worker holds, and look into the kernel's log for `Out of memory: Killed`.",
    ),
    _kernel(
        r"oom[-_]kill|Out of memory: Killed|OOMKilled|task \d+: Out Of Memory",
        "The node, or the job's share of it, had no memory left, and the kernel killed a process.",
        "Ask for more memory (`--mem`, the container's limit), or lower `num_workers` and what each rank loads.",
    ),
    ErrorText(
        r"ephemeral.storage|The node was low on resource|DiskPressure|MemoryPressure",
        "Kubernetes has ended the container, because its node ran short of disk or memory.",
        "Ask for what the job needs (`resources.requests`), and write checkpoints to a volume.",
        library="kubernetes",
    ),
    ErrorText(
        r"exceeded (?:job|step|virtual) memory limit|Exceeded job memory limit|memory (?:cgroup )?limit exceeded|"
        r"Workers? (?:was|were) killed due to the node running low on memory|node running low on memory|"
        r"ray\.exceptions\.OutOfMemoryError|ObjectStoreFullError",
        "The job used more of the node's memory than it may, and a process was ended for it.",
        "Ask for more (`--mem`, the container's limit), or lower `num_workers` and what each rank loads.",
        library="scheduler",
    ),
    ErrorText(
        r"numpy\.core\._exceptions\.\w*MemoryError|Unable to allocate [\d.]+ [KMGT]iB for an array",
        "An array did not fit into the node's memory.",
        "Each rank loads its own copy: map the file (`mmap_mode`), load a shard, or ask for more memory.",
        library="numpy",
    ),
    ErrorText(
        r"Cannot allocate memory|DefaultCPUAllocator: (?:can't|not enough)|std::bad_alloc|\bMemoryError\b",
        "The node had no memory left.",
        "Each rank loads its own copy: lower `num_workers`, map files instead of reading them, or ask for more memory.",
    ),
    _kernel(
        r"Read-only file system|\[Errno 30\]",
        "A file was to be written where nothing may be written: a mount that is read-only, or a disk that failed.",
        "Write to another folder (`HF_HOME`, `TORCH_HOME`, `TRITON_CACHE_DIR` and `TMPDIR` say where caches are).",
    ),
    _kernel(
        r"\[Errno (?:28|122)\]|No space left on device|Disk quota exceeded|PytorchStreamWriter failed writing",
        "A file could not be written: the disk, or the quota on it, is full, or the file system failed.",
        "`df -h`, `df -i` and `quota` on the node say which; keep fewer checkpoints.",
    ),
    _kernel(
        r"\[Errno (?:5|116)\]|Stale file handle|Input/output error",
        "The file system failed, or what is behind it (NFS, Lustre, a bucket) was gone for a moment.",
        "Try on this node whether the path can be read and written, and look into the kernel's log (`dmesg`).",
    ),
    _kernel(
        r"can't start new thread|Resource temporarily unavailable|pthread_create failed|"
        r"Cannot fork|libgomp: Thread creation failed|\[Errno 11\](?! .*lock)",
        "No more processes or threads can be started: each rank has workers, and each of them threads.",
        "Raise the limit (`ulimit -u`, `--pids-limit` of a container), set `OMP_NUM_THREADS=1`, or lower "
        "`num_workers`.",
    ),
)
