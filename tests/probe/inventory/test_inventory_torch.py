"""torch's view, on stand-ins for torch: builds, GPUs that do not start, and versions that tell less."""

import sys
import warnings
from collections.abc import Callable
from types import SimpleNamespace as Made
from typing import Any

import pytest

from gpudoctor.probe.inventory import torch_view
from gpudoctor.probe.inventory.facts import TorchDevice, TorchView
from gpudoctor.probe.inventory.field import Absence


def fails(text: str) -> Callable[..., Any]:
    def raise_it(*_: object) -> None:
        raise RuntimeError(text)

    return raise_it


def properties(**more: object) -> Made:
    return Made(**{"name": "L4", "major": 8, "minor": 9, "total_memory": 24 << 30, **more})


def torch(**more: Any) -> Made:
    """A torch for CUDA 12.6 with two GPUs."""
    uuids = ("aaaa", "GPU-bbbb")
    cuda = {
        "is_available": lambda: True,
        "init": lambda: None,
        "device_count": lambda: 2,
        "get_device_properties": lambda index: properties(
            uuid=uuids[index], pci_domain_id=0, pci_bus_id=0x1B + index, pci_device_id=0
        ),
        "can_device_access_peer": lambda one, other: one < other,
        "nccl": Made(version=lambda: (2, 27, 5)),
        **more.get("cuda", {}),
    }
    return Made(
        __version__="2.9.1+cu126",
        version=more.get("version", Made(cuda="12.6", hip=None)),
        _C=more.get("C", Made(_cuda_getArchFlags=lambda: "sm_80 sm_90 compute_90")),
        cuda=Made(**cuda),
        backends=Made(cudnn=Made(version=lambda: more.get("cudnn", 91002))),
        distributed=Made(is_available=lambda: True, is_gloo_available=lambda: True, is_nccl_available=lambda: True),
        accelerator=Made(current_accelerator=lambda: Made(type=more.get("accelerator", "cuda"))),
    )


def read(monkeypatch: pytest.MonkeyPatch, module: object) -> tuple[TorchView, list[TorchDevice]]:
    monkeypatch.setitem(sys.modules, "torch", module)
    told = [each for each in torch_view.read() if not isinstance(each, str)]
    views = [each for each in told if isinstance(each, TorchView)]
    return views[-1], [each for each in told if isinstance(each, TorchDevice)]


def test_a_build_for_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    view, devices = read(monkeypatch, torch())
    assert (view.version.value, view.cuda.value, view.cudnn.value, view.nccl.value) == (
        "2.9.1+cu126",
        "12.6",
        "9.10.2",
        "2.27.5",
    )
    assert view.architectures.value == ("sm_80", "sm_90", "compute_90")
    assert view.backends.value == ("gloo", "nccl")
    assert view.available.value is True
    assert not view.rocm.known
    assert [each.uuid.value for each in devices] == ["GPU-aaaa", "GPU-bbbb"]
    assert [each.pci.value for each in devices] == ["00000000:1b:00.0", "00000000:1c:00.0"]
    assert [each.peers.value for each in devices] == [(1,), ()]


def test_an_older_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(monkeypatch, torch(cudnn=8902))[0].cudnn.value == "8.9.2"


def test_a_build_for_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = torch(version=Made(cuda=None), C=Made(), cuda={"is_available": lambda: False}, accelerator="mps")
    view, devices = read(monkeypatch, bare)
    for field in (view.cuda, view.rocm, view.nccl, view.cudnn, view.architectures):
        assert "without" in field.why_not
    assert (view.available.value, view.trouble, view.other.value) == (False, "", "mps")
    assert devices == []


def test_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    view, _ = read(monkeypatch, torch(version=Made(cuda=None, hip="6.3")))
    assert (view.rocm.value, view.nccl.value) == ("6.3", "2.27.5")


def test_a_driver_that_is_too_old_in_torchs_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> bool:
        warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old\nand more", stacklevel=1)
        return False

    view, _ = read(monkeypatch, torch(cuda={"is_available": warn}))
    assert view.trouble == "CUDA initialization: The NVIDIA driver on your system is too old"


def test_the_exception_says_why_where_no_warning_does(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = {"is_available": lambda: False, "init": fails("Error 802: system not yet initialized")}
    assert "802" in read(monkeypatch, torch(cuda=silent))[0].trouble


def test_old_torch_tells_less(monkeypatch: pytest.MonkeyPatch) -> None:
    old = torch(cuda={"get_device_properties": lambda index: properties(), "can_device_access_peer": fails("invalid")})
    del old.accelerator
    view, devices = read(monkeypatch, old)
    assert view.other.why_not
    assert devices[0].uuid.absence is Absence.NOT_INSTALLED
    assert devices[0].pci.absence is Absence.NOT_INSTALLED
    assert devices[0].peers.why_not == "invalid"
    assert devices[0].memory == 24 << 30


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    view, _ = read(monkeypatch, None)
    assert view.version.absence in (Absence.NOT_INSTALLED, Absence.FAILED)


def test_a_broken_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    told = [each for each in torch_view.read() if isinstance(each, TorchView)]
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert told[-1].version.why_not == "torch cannot be imported: libcudart.so.12: cannot open shared object file"
    assert told[-1].version.absence is Absence.FAILED
