"""Errors of the environment in which Python starts: packages, their versions, compiled libraries, the command."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText

_python = partial(ErrorText, library="python")

STARTUP_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"operator torchvision::\w+ does not exist|(?:Couldn't|could not) load custom C\+\+ ops|"
        r"torchvision.*compiled with different CUDA|undefined symbol: _ZN[KR]?\d+(?:c10|at|torch|caffe2)",
        "An extension was compiled for another PyTorch than is installed.",
        "Install the build of it that belongs to this PyTorch, or compile it anew.",
    ),
    ErrorText(
        r"could not get local_idx/count|to get local_idx/count from ATL",
        "oneCCL was not told which process of its node this is: it was started without the launcher of MPI, whose "
        "variables tell that.",
        "Start with `mpirun` or `mpiexec`, or set `CCL_ZE_IPC_EXCHANGE=sockets` with `CCL_LOCAL_RANK` and "
        "`CCL_LOCAL_SIZE`.",
        library="oneccl",
    ),
    ErrorText(
        r"undefined symbol: (?:cu|nv|__nv)\w+|undefined symbol: \w*(?:cublas|cudnn|cusparse|cusolver|nvJitLink)\w*",
        "Libraries of two versions of CUDA are mixed: one was found before the one that PyTorch brings.",
        "Unset `LD_LIBRARY_PATH`, and look for packages `nvidia-*` of different versions (`pip list`).",
        library="cuda",
    ),
    ErrorText(
        r"(?:GLIBCXX|GLIBC|CXXABI)_[\d.]+'? not found|version `(?:GLIBCXX|GLIBC|CXXABI)",
        "The system's C or C++ library is older than a package was compiled for.",
        "Take a container or environment with a newer one (`conda install libstdcxx-ng`), or an older package.",
        library="system",
    ),
    ErrorText(
        r"lib\S+\.so\S*: (?:cannot open shared object file|failed to map segment)|DLL load failed|"
        r"Library not loaded: |cannot load (?:library|any more object)|"
        r"Could not load library lib\S+|Unable to load any of \{lib",
        "A compiled library is not found on this node, or does not load.",
        "`ldd` on the file says which; activate the environment on every node, and look at `LD_LIBRARY_PATH`.",
        library="system",
    ),
    ErrorText(
        r"undefined symbol: (?!nccl)",
        "A compiled library does not fit another one that was loaded: they are of different versions.",
        "Install them anew together, and look at `LD_LIBRARY_PATH`.",
        library="system",
    ),
    ErrorText(
        r"compiled using NumPy 1\.x cannot be run in|numpy\.core\.multiarray failed to import|"
        r"numpy\.dtype size changed|module 'numpy' has no attribute|`np\.\w+` was (?:a deprecated alias|removed in)|"
        r"Numpy is not available|"
        r"_ARRAY_API not found|No module named 'numpy\._core|numpy\.ufunc size changed",
        "NumPy is of another version than the program, or a package compiled for it, needs.",
        "Mostly `pip install 'numpy<2'` (or `<1.24` for names such as `np.int`), or update the package.",
        library="numpy",
    ),
    ErrorText(
        r"Descriptors cannot (?:not )?be created directly",
        "The package `protobuf` is newer than a package that uses it.",
        "`pip install 'protobuf<=3.20.3'`, or update the other.",
        library="protobuf",
    ),
    _python(
        r"No module named '[\w.]+'; '[\w.]+' is not a package",
        "Something else of this name is found before the package: a file beside the script, or another package.",
        "Print its `__file__`, and rename the file or remove the other package.",
    ),
    ErrorText(
        r"UnencryptedCookieSessionFactoryConfig|No module named '(?:amp_C|apex|fused_layer_norm_cuda|"
        r"fused_weight_gradient_mlp_cuda)'",
        "NVIDIA's Apex is not installed, or not with its compiled parts; `pip install apex` brings another package.",
        "Build it from its repository, or take what PyTorch has itself (`torch.amp`, SyncBatchNorm).",
        library="apex",
    ),
    ErrorText(
        r"cannot import name '(?:Store|ReduceOp|ProcessGroup|init_process_group|get_rank)' from 'torch\.distributed|"
        r"torch\.distributed is not available|"
        r"Torch distributed is not available|torch\.distributed package (?:is not|not) available|"
        r"module 'torch\.distributed' has no attribute '(?:init_process_group|is_initialized|get_rank|ReduceOp)'",
        "This build of PyTorch has no `torch.distributed`, as those for some boards and for macOS.",
        "Install a build that has it (`python -c 'import torch; print(torch.distributed.is_available())'`).",
    ),
    _python(
        r"cannot import name '?\w+'? from '[\w.]+' \((?:unknown location|(?![^)]*-packages)[^)]+)\)",
        "What is imported from is a folder or a file that lies beside the program or on its path, and does not have "
        "this name: it is another one than was meant, or of another version.",
        "Print the module's `__file__` (`__path__` of a folder), and compare it with the repository.",
    ),
    _python(
        r"No module named '(?:torch\._six|torch\.\S+|pytorch_lightning\.\S+|lightning\.\S+|transformers\.\S+|"
        r"torchvision\.\S+|accelerate\.\S+|deepspeed\.\S+|megatron\.\S+|mmcv\.\S+|datasets\.\S+|apex\.\S+|"
        r"numpy\.\S+|flash_attn\.\S+|pkg_resources)'|"
        r"cannot import name '?\w+'? from|module '(?:torch|transformers|accelerate|deepspeed|datasets|torchvision|"
        r"lightning|pytorch_lightning|peft|trl|xformers|triton)[\w.]*' has no attribute",
        "A library is installed in a version that does not have what is imported from it.",
        "Install the versions that the program's requirements name, on each node.",
    ),
    _python(
        r"partially initialized module|attempted relative import (?:with no known parent|beyond top-level)",
        "A module was started or imported in another way than it is written for: as a file in place of a part of its "
        "package, in a circle, or under the name of another package.",
        "Start it with `python -m package.module` (torchrun: `-m`), and name no file as a package.",
    ),
    _python(
        r"ContextualVersionConflict|DistributionNotFound|PackageNotFoundError|VersionConflict|"
        r"is required for a normal functioning of this module|requires? (?:the )?\S+ (?:library|package)? ?but it was "
        r"not found|Using .*requires? .*`?pip install|packages that were not found in your environment|"
        r"requires the .* library|(?:is|was) not (?:installed|found) (?:on|in) your (?:system|environment)|"
        r"please (?:run `?)?(?:pip|conda) install|Please install (?:it|\w+)|Please run `?pip3? install|"
        r"DeepSpeed is not installed|is not installed => run",
        "A package is missing in the environment of this process, or has a version that another one does not take.",
        "Install what the text names in the environment of the job, on each node.",
    ),
    _python(
        r"ModuleNotFoundError: No module named",
        "A package or a module is not there in the environment, or on the path, of this process.",
        "Install it in the environment of the job on each node, or start from the folder that has it.",
    ),
    ErrorText(
        r"OMP: Error #\d+",
        "The OpenMP runtime ended the process: mostly there are two of it (PyTorch's, and one of conda or MKL), or it "
        "may make no more threads or shared memory.",
        "Let one package bring it (`conda list openmp`, `pip list`), and look at `ulimit -u` and /dev/shm.",
        library="openmp",
    ),
    _python(
        r"can't open file '[^']*': \[Errno 2\]",
        "Python did not find the script that it was told to run.",
        "Start from the folder that the path begins in, or give the whole path; where SLURM runs a copy of the job's "
        "script, `$0` is that copy.",
    ),
    ErrorText(
        r"attempt has been made to start a new process before the",
        "Processes were started while a module was imported: each of them imports it again.",
        'Put what starts them under `if __name__ == "__main__":`.',
        code="GPU405",
    ),
    ErrorText(
        r"context has already been set",
        "The start method of processes was set a second time.",
        'Call `set_start_method` once, under `if __name__ == "__main__":`, or with `force=True`.',
    ),
    ErrorText(
        r"daemonic processes are not allowed to have children",
        "A worker tries to start processes of its own, which workers may not.",
        "Start ranks with `mp.spawn` or torchrun, not in a `Pool`; take `num_workers=0` inside of workers.",
    ),
    ErrorText(
        r"[Cc]an't pickle|cannot pickle|Can't get attribute '\w+' on <module|Cowardly refusing to serialize|"
        r"Value after \* must be an iterable|cannot be pickled|Forking a process while",
        "What is passed to a new process cannot be sent to it: a function inside of a function, a lambda, an open "
        "file, a tensor with a graph.",
        "Pass functions of a module, and plain data; `args=(world_size,)` is a tuple.",
        likely=("GPU404",),
    ),
)
