"""Errors of GPUs: which one a process uses, the driver, CUDA and its libraries."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText

_cuda = partial(ErrorText, library="cuda")
_driver = partial(ErrorText, library="driver")

DEVICE_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"tensors to be on the same device|tensors (?:must|should) be on the same device|"
        r"arguments are located on different GPUs|(?:is|are) on different devices?\b|expected device cuda:\d+ but got|"
        r"to (?:be on the same device|have the same device as)",
        "Tensors of one operation are on different devices.",
        "Move the batch, and what `forward` makes, to the rank's GPU.",
        likely=("GPU201", "GPU202", "GPU213", "GPU211", "GPU212", "GPU215"),
    ),
    ErrorText(
        r"\"\w*cpu\w*\" not implemented for",
        "The CPU was to compute in half precision: the model, or a part of it, is not on the GPU.",
        "Move the model to the rank's GPU, or load it in FP32.",
        likely=("GPU202",),
    ),
    ErrorText(
        # Both without a device, both on the GPU, or both on the CPU.
        r"Input type \((?:c10::)?\w+\) and (?:weight|bias) type \((?:c10::)?\w+\)|"
        r"Input type \(torch\.cuda\.\w+\) and (?:weight|bias) type \(torch\.cuda\.|"
        r"Input type \(torch\.\w+Tensor\) and (?:weight|bias) type \(torch\.\w+Tensor\)",
        "The batch and the weights have different dtypes: one is in half precision, the other is not.",
        "Compute within `torch.autocast`, or bring both to one dtype.",
    ),
    ErrorText(
        r"Input type \([\w.:]+\) and (?:weight|bias) type",
        "The batch and the weights are on different devices, or have different types.",
        "Move both to the rank's GPU.",
        likely=("GPU201", "GPU202"),
    ),
    ErrorText(
        r"Expected a floating point or complex tensor as input|must be either a floating point or complex dtype|"
        r"Only Tensors of floating point(?: and complex)? dtype can require gradients",
        "An operation that takes numbers with a fraction was given whole ones.",
        "Convert them first: `tensor.float()`.",
    ),
    ErrorText(
        r"must have the same dtype|expected scalar type \w+ but found|expected m1 and m2 to have the same dtype|"
        r"to have the same dtype, but got|self and mat2 must have|Index put requires the source and destination dtypes|"
        r"Found dtype \w+ but expected \w+",
        "Tensors of one operation have different dtypes: a part of the model or of the batch is in another precision.",
        "Compute within `torch.autocast`, or bring both to one dtype.",
    ),
    ErrorText(
        r"[Dd]uplicate GPU detected|Multiple Ranks are using the same GPU",
        "Two ranks use the same GPU.",
        "Call `torch.cuda.set_device(int(os.environ['LOCAL_RANK']))` before the process group is made, and start no "
        "more processes on a node than it has GPUs.",
        likely=("GPU204", "GPU206", "GPU423"),
        library="nccl",
    ),
    ErrorText(
        r"Attempting to deserialize object on (?:a )?CUDA device",
        "A checkpoint was saved from a GPU that this process does not have, and is loaded to the same place.",
        "Load it with `map_location='cpu'` or to the rank's own GPU, then load it into the model.",
        likely=("GPU209",),
    ),
    ErrorText(
        r"Attempting to deserialize object on (?:a )?\w+ device",
        "A checkpoint was saved from a device that this process does not have, and is loaded to the same place.",
        "Load it with `map_location='cpu'`, then load it into the model.",
        likely=("GPU209",),
    ),
    ErrorText(
        r"can't convert \w+:\d+ device type tensor to numpy",
        "numpy was to read a tensor that is on a GPU.",
        "Copy it to the CPU first: `tensor.cpu().numpy()`, with `.detach()` where it has a gradient.",
    ),
    ErrorText(
        r"indices should be either on \S+ or on the same device as the indexed tensor",
        "A table on the CPU is indexed by a tensor that is on a GPU.",
        "Move the table to the GPU, in a module by `register_buffer`; or index it by `indices.cpu()`.",
        likely=("GPU211", "GPU213"),
    ),
    ErrorText(
        r"'lengths' argument should be a 1D CPU int64 tensor",
        "The lengths of a packed sequence are on a GPU, and PyTorch wants them on the CPU.",
        "Pass `lengths.cpu()`. A wrapper with `device_ids` moves all that it is called with to the GPU.",
    ),
    ErrorText(
        r"Expected a '\w+' device type for generator but found",
        "A random generator of one device was to draw numbers on another; a `DataLoader` that shuffles draws on the "
        "default device.",
        "Give it a generator of that device: `generator=torch.Generator(device=...)`.",
    ),
    ErrorText(
        r"invalid device ordinal|device index less than the number of accelerators available|"
        r"device >= 0 && device < num_gpus",
        "A rank asked for a GPU that this node does not have, or does not show to it.",
        "Take `LOCAL_RANK`, not `RANK`, as the number of the GPU, and start no more processes than there are GPUs.",
        likely=("GPU205", "GPU423", "GPU428"),
    ),
    ErrorText(
        r"local_rank \d+ exceeds available GPUs|device \d+ is not visible|Invalid device id|"
        r"Device index must (?:not )?be|device_id \S+ is out of range",
        "A process asked for a GPU that is not shown to it.",
        "Start no more processes than there are GPUs in `CUDA_VISIBLE_DEVICES`, and count the GPUs from 0.",
        likely=("GPU423", "GPU205", "GPU428"),
    ),
    ErrorText(
        r"Cannot re-initialize CUDA in forked subprocess",
        "CUDA was started before processes were forked.",
        "Use the start method `spawn`, or touch no GPU before.",
        likely=("GPU406", "GPU216"),
    ),
    ErrorText(
        r"cannot probe CUDA device capabilities in a forked subprocess|CUDA error: initialization error|"
        r"Cuda failure (?:\d+ )?'initialization error'",
        "CUDA does not start in this process: often it was forked from one that had used the GPU, else the driver is "
        "broken.",
        "Use the start method `spawn`; try `python -c 'import torch; torch.zeros(1).cuda()'` on the node.",
        likely=("GPU406", "GPU216"),
    ),
    _cuda(
        r"device-side assert triggered|\.(?:cu|hip):\d+: .*[Aa]ssertion|block: \[.*, thread: \[.*\] Assertion",
        "A kernel was given an invalid value, mostly an index out of its range: labels, tokens, positions.",
        "Run again with `CUDA_LAUNCH_BLOCKING=1`, or on the CPU: the line that is named then is the right one.",
    ),
    _cuda(
        r"illegal memory access|misaligned address|unspecified launch failure|an illegal instruction|"
        r"Memory access fault by GPU",
        "A kernel read or wrote where it may not.",
        "Run again with `CUDA_LAUNCH_BLOCKING=1` (ROCm: `AMD_SERIALIZE_KERNEL=3`): the line named then is right.",
    ),
    _driver(
        r"HW Exception by GPU",
        "A GPU of AMD stopped with an exception of its hardware; the text says which, as a kernel that hung.",
        "Look into the kernel's log of the node (`dmesg | grep amdgpu`), and leave this GPU out if it does so again.",
    ),
    _driver(
        r"system not yet initialized|Fabric ?[Mm]anager|CUDA error 802|Error 802",
        "The node's GPUs are joined by NVSwitch, and the service for that (Fabric Manager) is not running, or is of "
        "another version than the driver.",
        "`systemctl status nvidia-fabricmanager` and `nvidia-smi -q | grep -A2 Fabric` on the node.",
    ),
    _driver(
        r"NVML: Driver/library version mismatch|nvmlInit\S* failed|Failed to initialize NVML|"
        r"NVMLError|NVML_ERROR",
        "The driver does not answer: it was updated while it ran, or the container lost its GPUs.",
        "`nvidia-smi` on the node: where it fails too, reload the driver or restart the node; else start the container "
        "anew.",
    ),
    _driver(
        r"CUDA unknown error|cuda runtime error \(999\)|"
        r"Unexpected error from cudaGetDeviceCount|CUDA driver initialization failed|cudaErrorUnknown",
        "The driver did not start CUDA for this process, and does not say why.",
        "`nvidia-smi` and a small program on the node; restart the node (or the container) where these fail, too.",
    ),
    _driver(
        r"CUDA error: unknown error",
        "A call of CUDA failed, and the driver does not say why: at the start CUDA mostly cannot be used on this node; "
        "in the midst of a training the GPU, its link or the driver has failed.",
        "Look for `NVRM: Xid` in the kernel's log of the node (`dmesg`), and try a small program there.",
    ),
    _driver(
        r"uncorrectable ECC|Xid.*?: (?:48|63|64|74|79|92|94|95)\b|GPU has fallen off the bus|"
        r"Unable to determine the device handle|GPU is lost",
        "The GPU or its link has failed.",
        "Take the node out of service, and have it examined (`nvidia-smi -q`, `dcgmi diag -r 3`).",
    ),
    _cuda(
        r"PTX was compiled with an unsupported toolchain|provided PTX was compiled|"
        r"unsupported display driver / cuda driver combination|API call is not supported in the installed CUDA driver",
        "The driver is older than the CUDA with which a kernel was compiled.",
        "Update the driver, or install builds for an older CUDA.",
    ),
    _cuda(
        r"no kernel image is available|not compatible with the current PyTorch installation",
        "This build of PyTorch, or of an extension, has no kernels for this kind of GPU.",
        "Install a build for its compute capability.",
    ),
    _cuda(
        r"device kernel image is invalid|named symbol not found|invalid device function|"
        r"ptxas fatal|nvrtc: error|Unsupported gpu architecture|unsupported gpu architecture",
        "A kernel or a function is not there: it was built for another kind of GPU, another CUDA or another driver.",
        "Install builds for this GPU; for extensions set `TORCH_CUDA_ARCH_LIST` and compile them anew.",
    ),
    _cuda(
        r"driver (?:version is insufficient|on your system is too old)|forward compatibility was attempted",
        "The driver is older than this build of PyTorch needs.",
        "Update the driver, or install a build for an older CUDA.",
    ),
    _driver(
        r"Found no NVIDIA driver on your system|could not select device driver|nvidia-container-cli: |"
        r"libcuda\.so(?:\.1)?: cannot open shared object file|couldn't communicate with the NVIDIA driver",
        "There is no NVIDIA driver here: the node has none, or the container was started without GPUs.",
        "`nvidia-smi` on the node; start containers with `--gpus all` (and the NVIDIA container toolkit).",
    ),
    ErrorText(
        r"AclNN_\w+\(EZ\d+\)|aclnn\w+ call failed",
        "An operator of the NPU refuses what it was given; the text says what.",
        "Give it what it takes, or compute this part on the CPU.",
        library="torch_npu",
    ),
    ErrorText(
        r"Torch not compiled with CUDA enabled|module 'torch\._C' has no attribute '_cuda",
        "This PyTorch was built without CUDA, and the program asks it for a GPU of NVIDIA.",
        "Install the build for this machine (`python -c 'import torch; print(torch.version.cuda)'` says what it is "
        "for), in the environment that the job uses.",
    ),
    ErrorText(
        r"No CUDA GPUs are available|no CUDA-capable device|"
        r"ProcessGroupNCCL is only supported with GPUs",
        "The process sees no GPU, or PyTorch was built for the CPU.",
        "Look at `CUDA_VISIBLE_DEVICES`, at what the scheduler gives each task, and at `torch.version.cuda`.",
        likely=("GPU210", "GPU428"),
    ),
    _cuda(
        r"the launch timed out and was terminated|cudaErrorLaunchTimeout",
        "A kernel ran longer than this GPU allows one to: it also draws a display, which would stand still meanwhile.",
        "Train on a GPU that no display is connected to, or end the graphical session on the node.",
    ),
    _cuda(
        r"CUDA-capable device(?:\(s\) is/are|s are) busy or unavailable|exclusive process|device busy",
        "Another process has the GPU for itself.",
        "End it (`nvidia-smi` names it); start no second job on the same GPUs.",
    ),
    _cuda(
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED",
        "A library of CUDA found no memory for itself: the GPU is full.",
        "Lower the batch, and look for other processes on this GPU (`nvidia-smi`).",
        likely=("GPU204", "GPU209"),
    ),
    _cuda(
        r"(?:Unable|unable) to find an engine to execute this computation|CUDNN_STATUS_(?:NOT_SUPPORTED|"
        r"SUBLIBRARY_\w+|VERSION_MISMATCH)|cuDNN version incompatibility",
        "cuDNN has no way to compute this here: the memory is too little for any, or its version does not fit PyTorch "
        "or the GPU.",
        "Lower the batch; unset `LD_LIBRARY_PATH` where it names another cuDNN; try `torch.backends.cudnn.enabled = "
        "False`.",
    ),
    _cuda(
        r"CUBLAS_STATUS_|CUDNN_STATUS_|cusolver error",
        "A library of CUDA failed: often memory that had run out, or an index out of its range before.",
        "Run again with `CUDA_LAUNCH_BLOCKING=1`, and with a smaller batch.",
    ),
    _cuda(
        r"too many resources requested for launch|invalid configuration argument|out of resource: shared memory|"
        r"OutOfResources",
        "A kernel asks for more than this GPU has: threads, registers or shared memory of a block; an empty tensor "
        "does so, too.",
        "Lower the block's sizes (for Triton `num_stages`), and look for empty batches.",
    ),
    _cuda(
        r"operation not permitted when stream is capturing|operation would make the legacy stream depend|"
        r"operation failed due to a previous error during capture|captures_underway",
        "While a CUDA graph was recorded, something was called that cannot be part of one: a copy to the CPU, a new "
        "allocation, or a collective of another thread.",
        "Keep such calls out of the captured part; with `torch.compile` try another mode than `reduce-overhead`.",
    ),
    ErrorText(
        r"backend='?\w+'? raised|BackendCompilerFailed|InductorError|LoweringException|CompilationError|PTXASError|"
        r"torch\._dynamo\.exc\.|No working C\+\+ compiler found|Failed to find C compiler|InvalidCxxCompiler|"
        r"Cannot find a working triton installation|TritonMissing|AttributeError: module 'triton|Triton Error \[CUDA\]",
        "`torch.compile`, or Triton behind it, could not compile the model on this node.",
        "Run without `torch.compile` to see whether the model itself works; compilers (`gcc`) and Python's headers "
        "must be there, and ranks need a cache that is not shared (`TORCHINDUCTOR_CACHE_DIR`, `TRITON_CACHE_DIR`).",
    ),
    ErrorText(
        r"CUDA Setup failed despite (?:GPU|CUDA) being available|libbitsandbytes_\w+\.so|"
        r"bitsandbytes was compiled without GPU support",
        "bitsandbytes has no library for this CUDA.",
        "`python -m bitsandbytes` says which it looks for; update it.",
        library="bitsandbytes",
    ),
    _cuda(
        r"peer mapping resources exhausted",
        "A GPU can share its memory with eight others only.",
        "Use eight GPUs in one process, or set `NCCL_P2P_DISABLE=1`.",
    ),
)
