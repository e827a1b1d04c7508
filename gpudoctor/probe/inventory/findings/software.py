"""Driver and torch that do not fit the GPUs, or each other."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.probe.inventory.architectures import Support, is_older, support
from gpudoctor.probe.inventory.facts import Inventory
from gpudoctor.probe.inventory.field import Absence
from gpudoctor.probe.inventory.findings.point import WeakPoint, named

_WHEEL_INDEX = "https://download.pytorch.org/whl"
# The last ones with kernels for Maxwell, Pascal and Volta, which CUDA 13 no longer knows.
_LAST_FOR_OLD_GPUS = "cu126"
# A driver runs wheels up to its own CUDA version.
_WHEELS = ((13, 2), (13, 0), (12, 9), (12, 8), (12, 6), (12, 4), (12, 1), (11, 8))
# The oldest drivers that run any program of a CUDA major version: NVIDIA's "CUDA compatibility" tables.
_OLDEST_DRIVER = {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
_COMPATIBILITY = "NVIDIA's CUDA compatibility tables"


def weak_points(inventory: Inventory) -> Iterator[WeakPoint]:
    """Driver first: nothing else works without it."""
    yield from _driver(inventory)
    yield from _torch(inventory)
    yield from _architectures(inventory)


def has_gpu(inventory: Inventory) -> bool:
    """Whether there is an NVIDIA GPU, with or without a driver."""
    return bool(inventory.gpus or inventory.driver.count.or_else(0) or inventory.system.nvidia_pci.or_else(()))


def _driver(inventory: Inventory) -> Iterator[WeakPoint]:
    driver, system = inventory.driver.version, inventory.system
    # AMD's GPUs have no NVML, and need none.
    if driver.known or inventory.torch.rocm.known:
        return
    if driver.absence is Absence.MISMATCH:
        module = system.nvidia_module.or_else("another version")
        yield WeakPoint(
            "driver-mismatch",
            Severity.ERROR,
            f"the NVIDIA kernel module ({module}) and the driver's library have different versions",
            "the driver was updated while its old module stayed loaded, so no program can use a GPU",
            "sudo reboot",
        )
    elif driver.absence is Absence.FORBIDDEN:
        yield WeakPoint(
            "driver-forbidden",
            Severity.ERROR,
            f"the driver does not let this user ask ({driver.why_not})",
            "programs of this user cannot use a GPU",
            "ls -l /dev/nvidia*; id   (the device files' group is often `video` or `render`: sudo usermod -aG ...)",
        )
    elif driver.absence is Absence.TIMED_OUT:
        yield WeakPoint(
            "driver-hangs",
            Severity.ERROR,
            f"the NVIDIA driver does not answer ({driver.why_not})",
            "programs that use a GPU will hang as well",
            "sudo dmesg | grep -iE 'xid|nvrm'; then reboot",
        )
    elif inventory.torch_devices:
        yield _nvml_missing(inventory)
    elif has_gpu(inventory) or system.nvidia_module.known:
        yield _no_driver(inventory)


def _nvml_missing(inventory: Inventory) -> WeakPoint:
    driver = inventory.driver.version
    installable = driver.absence is Absence.NOT_INSTALLED
    return WeakPoint(
        "nvml-missing",
        Severity.WARNING,
        f"torch sees {len(inventory.torch_devices)} GPU(s), but NVML does not answer ({driver.why_not})",
        "utilisation, temperature, throttling, links and memory errors cannot be looked at",
        "pip install nvidia-ml-py"
        if installable
        else "in a container: docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
    )


def _no_driver(inventory: Inventory) -> WeakPoint:
    driver, system = inventory.driver.version, inventory.system
    contained = system.container.known
    if driver.absence is Absence.NOT_INSTALLED:
        return WeakPoint(
            "nvml-missing",
            Severity.WARNING,
            "the GPUs cannot be looked at: nvidia-ml-py is not installed",
            "their health, links and load stay unknown",
            "pip install nvidia-ml-py",
        )
    if contained and driver.absence is Absence.FAILED:
        return WeakPoint(
            "container-lost-gpus",
            Severity.ERROR,
            f"the driver refuses this container its GPUs ({driver.why_not})",
            "a known effect of `systemctl daemon-reload` on the host: running containers lose their devices",
            "restart the container",
            source="NVIDIA/nvidia-container-toolkit#48",
        )
    if contained and not system.nvidia_nodes.or_else(()):
        return WeakPoint(
            "container-without-gpus",
            Severity.ERROR,
            "this machine has NVIDIA GPUs, and none was given to this container",
            "programs in it run on the CPU",
            "docker run --gpus all ...",
        )
    return WeakPoint(
        "driver-missing",
        Severity.ERROR,
        f"there is an NVIDIA GPU, and no driver for it ({driver.why_not})",
        "no program can use it",
        "install the NVIDIA driver (Ubuntu: sudo ubuntu-drivers install), then reboot",
    )


def _torch(inventory: Inventory) -> Iterator[WeakPoint]:
    torch = inventory.torch
    if not torch.version.known:
        yield from _torch_missing(inventory)
    elif not torch.cuda.known and not torch.rocm.known:
        # A container that was given no GPU may well be meant for the CPU.
        if inventory.gpus or (has_gpu(inventory) and not inventory.system.container.known):
            yield WeakPoint(
                "cpu-only-torch",
                Severity.ERROR,
                f"torch {torch.version} was built for the CPU, on a machine with {_gpus(inventory)}",
                "torch.cuda.is_available() is False and training runs on the CPU",
                _install(inventory),
            )
    elif torch.available.absence is Absence.TIMED_OUT and not torch.available.known:
        yield WeakPoint(
            "cuda-hangs",
            Severity.ERROR,
            f"CUDA does not start in torch ({torch.available.why_not})",
            "training will stop at its first use of a GPU",
            "sudo dmesg | grep -iE 'xid|nvrm'; then reboot",
        )
    elif torch.available.value is False and inventory.gpus and not inventory.visibility.doubt:
        yield _cuda_fails(inventory)
    elif torch.available.value and inventory.driver.cuda.known and torch.cuda.known:
        yield from _same_major(inventory)
    if torch.cuda.known and "nccl" not in torch.backends.or_else(("nccl",)) and len(inventory.gpus) > 1:
        yield WeakPoint(
            "nccl-missing",
            Severity.ERROR,
            f"torch {torch.version} was built without NCCL",
            "several GPUs can only train together through gloo, by way of the machine's memory",
            _install(inventory),
        )


def _torch_missing(inventory: Inventory) -> Iterator[WeakPoint]:
    version = inventory.torch.version
    if version.absence is Absence.NOT_INSTALLED:
        what, remedy = "torch is not installed", f"pip install torch{_index(inventory)}"
        yield WeakPoint("torch-missing", Severity.ERROR, what, "only the machine itself was looked at", remedy)
    elif version.absence in (Absence.FAILED, Absence.TIMED_OUT):
        yield WeakPoint(
            "torch-broken",
            Severity.ERROR,
            version.why_not,
            "no training can start in this Python",
            f"pip install --force-reinstall --no-cache-dir torch{_index(inventory)}",
        )


def _cuda_fails(inventory: Inventory) -> WeakPoint:
    torch, driver = inventory.torch, inventory.driver
    wheel, runs = _numbers(torch.cuda.or_else("")), _numbers(driver.cuda.or_else(""))
    if wheel and runs and runs[0] < wheel[0]:
        return WeakPoint(
            "driver-too-old",
            Severity.ERROR,
            f"torch {torch.version} needs CUDA {torch.cuda}, and driver {driver.version} ends at CUDA {driver.cuda}",
            "torch.cuda.is_available() is False and training runs on the CPU",
            _for_old_driver(inventory, wheel[0]),
            figure=float(driver.cuda.get()),
            unit="CUDA version",
            expectation=f"at least {wheel[0]}.0",
            source=_COMPATIBILITY,
        )
    if "802" in torch.trouble or "not yet initialized" in torch.trouble:
        return WeakPoint(
            "fabric-manager",
            Severity.ERROR,
            f"CUDA does not start ({torch.trouble})",
            "GPUs on NVSwitch wait for the fabric manager",
            "sudo systemctl restart nvidia-fabricmanager",
        )
    said = torch.trouble or "it gives no reason"
    return WeakPoint(
        "cuda-fails",
        Severity.ERROR,
        f"the driver shows {_gpus(inventory)}, and CUDA does not start in torch ({said})",
        "torch.cuda.is_available() is False and training runs on the CPU",
        'python -c "import torch; torch.cuda.init()"   (its error says more)',
    )


def _for_old_driver(inventory: Inventory, major: int) -> str:
    newer = f"a driver of at least {_OLDEST_DRIVER[major]}" if major in _OLDEST_DRIVER else "the newest driver"
    if not _index(inventory):
        return f"install {newer}: no wheel of torch is built for one this old"
    return f"{_install(inventory)}   (or install {newer})"


def _same_major(inventory: Inventory) -> Iterator[WeakPoint]:
    wheel, runs = inventory.torch.cuda.get(), inventory.driver.cuda.get()
    if _numbers(wheel) > _numbers(runs):
        yield WeakPoint(
            "driver-older-than-wheel",
            Severity.INFO,
            f"torch was built with CUDA {wheel}, the driver is of CUDA {runs}",
            "this works, but kernels that come as PTX (Triton's, some extensions) may be refused",
            "update the driver when it suits",
            source=_COMPATIBILITY,
        )


def _architectures(inventory: Inventory) -> Iterator[WeakPoint]:
    built = inventory.torch.architectures.value
    if not built or not inventory.torch.cuda.known:
        return
    by_capability: dict[str, list[int]] = {}
    for gpu in inventory.gpus:
        if gpu.capability.known:
            by_capability.setdefault(gpu.capability.get(), []).append(gpu.index)
    for capability, indices in by_capability.items():
        answer = support(capability, built)
        name = inventory.gpus[indices[0]].name.or_else("a GPU")
        if answer is Support.NONE:
            yield WeakPoint(
                "architecture-missing",
                Severity.ERROR,
                f"torch {inventory.torch.version} has no kernels for {named(indices)} ({name}, {capability})",
                "the first kernel raises `no kernel image is available for execution on the device`",
                _install_for(capability, built, inventory),
                figure=float(capability),
                unit="compute capability",
                expectation=f"one of {' '.join(built)}",
                source="torch.cuda.get_arch_list()",
                gpus=tuple(indices),
            )
        elif answer is Support.COMPILED_LATE:
            yield WeakPoint(
                "architecture-compiled-late",
                Severity.INFO,
                f"torch {inventory.torch.version} has no ready kernels for {named(indices)} (capability {capability})",
                "the driver compiles each of them at its first use: the first steps take minutes",
                _install_for(capability, built, inventory),
                gpus=tuple(indices),
            )


def _install_for(capability: str, built: tuple[str, ...], inventory: Inventory) -> str:
    """Old GPUs need an older wheel, new ones the newest that the driver runs."""
    if is_older(capability, built):
        return f"pip install --force-reinstall torch --index-url {_WHEEL_INDEX}/{_LAST_FOR_OLD_GPUS}"
    return _install(inventory)


def _gpus(inventory: Inventory) -> str:
    gpus = inventory.gpus
    count = len(gpus) or len(inventory.system.nvidia_pci.or_else(()))
    name = gpus[0].name.or_else("NVIDIA GPU") if gpus else "NVIDIA GPU"
    return f"{count} x {name}"


def _install(inventory: Inventory) -> str:
    return f"pip install --force-reinstall torch{_index(inventory)}"


def _index(inventory: Inventory) -> str:
    """The index of wheels that the driver can run; PyPI's where nothing is known."""
    runs = _numbers(inventory.driver.cuda.or_else(""))
    fitting = [wheel for wheel in _WHEELS if runs and wheel <= runs]
    if not fitting:
        return ""
    return f" --index-url {_WHEEL_INDEX}/cu{fitting[0][0]}{fitting[0][1]}"


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) for part in parts) if all(part.isdigit() for part in parts) else ()
