"""PCI devices as the kernel shows them below /sys. In virtual machines much of it is missing or makes no sense."""

from __future__ import annotations

from pathlib import Path

from gpudoctor.probe.inventory.field import Field, absent, known
from gpudoctor.probe.inventory.system_files import text_in

DEVICES = Path("/sys/bus/pci/devices")
_NVIDIA = "0x10de"
_GPU_CLASSES = ("0x0300", "0x0302")
# Gigatransfers a second of each generation, as the kernel words them.
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)


def nvidia_gpus() -> Field[tuple[str, ...]]:
    """Addresses of NVIDIA GPUs that the machine has, whether or not a driver runs them."""
    try:
        devices = sorted(DEVICES.iterdir())
    except OSError as error:
        return absent(f"{DEVICES} cannot be read ({error.strerror})")
    return known(tuple(device.name for device in devices if _is_gpu(device)))


def _is_gpu(device: Path) -> bool:
    return text_in(device / "vendor") == _NVIDIA and text_in(device / "class")[:6] in _GPU_CLASSES


def max_width(pci: Field[str]) -> Field[int]:
    """Lanes that the device itself has."""
    text = _of(pci, "max_link_width")
    if text.value is None:
        return Field(None, text.why_not, text.absence)
    # A virtual machine says 0 or 255.
    width = int(text.value) if text.value.isdigit() else 0
    return known(width) if width in _WIDTHS else absent(f"the system says {text.value!r}")


def max_generation(pci: Field[str]) -> Field[int]:
    """The PCIe generation that the device itself could use."""
    text = _of(pci, "max_link_speed")
    if text.value is None:
        return Field(None, text.why_not, text.absence)
    generation = _GENERATIONS.get(text.value.split()[0] if text.value.split() else "")
    return absent(f"the system says {text.value!r}") if generation is None else known(generation)


def numa_node(pci: Field[str]) -> Field[int]:
    """The NUMA node that the device hangs on; the kernel says -1 where the firmware tells none."""
    text = _of(pci, "numa_node")
    if text.value is None:
        return Field(None, text.why_not, text.absence)
    if not text.value.isdigit():
        return absent("the firmware does not tell it")
    return known(int(text.value))


def _of(pci: Field[str], name: str) -> Field[str]:
    if pci.value is None:
        return pci
    # NVML writes the domain with eight digits, the kernel with four.
    domain, _, rest = pci.value.partition(":")
    device = DEVICES / f"{domain[-4:]}:{rest}"
    text = text_in(device / name)
    return known(text) if text else absent("the system does not show this device")
