"""The files of CIFAR-10 as its authors hand them out: the version for Python, or the binary one."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

from gpudoctor.errors import UsageError
from gpudoctor.probe.context import NotHereError

IMAGE = 3 * 32 * 32
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
_FOLDERS = ("", "cifar-10-batches-py", "cifar-10-batches-bin")


def folder_of(path: str) -> str:
    """The folder below `path` that holds the files; raises UsageError where there is none."""
    for name in _FOLDERS:
        folder = Path(path, name)
        if _files(folder, "test_batch") and any(_files(folder, each) for each in _TRAIN):
            return str(folder)
    raise UsageError(
        f"--data cifar10:{path}: holds neither `data_batch_1` and `test_batch` nor the same with `.bin`; "
        "unpack cifar-10-python.tar.gz or cifar-10-binary.tar.gz there"
    )


def _files(folder: Path, name: str) -> list[Path]:
    return [path for path in (folder / name, folder / f"{name}.bin") if path.is_file()]


def read(folder: str, *, train: bool) -> tuple[Any, Any]:
    """Images (n, 3, 32, 32) in bytes and labels (n,), on the CPU.

    Raises NotHereError where the version for Python is there and numpy, which it is made of, is not.
    """
    import torch

    names = _TRAIN if train else ("test_batch",)
    parts = [_part(path) for name in names for path in _files(Path(folder), name)[:1]]
    images, labels = (torch.cat(each) for each in zip(*parts, strict=True))
    return images.reshape(-1, 3, 32, 32), labels.long()


def _part(path: Path) -> tuple[Any, Any]:
    import torch

    data = path.read_bytes()
    if path.suffix == ".bin":
        rows = torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(-1, 1 + IMAGE)
        return rows[:, 1:], rows[:, 0]
    try:
        entries = _Careful(io.BytesIO(data), encoding="bytes").load()
    except ImportError as error:
        raise NotHereError(
            f"{path.name} needs numpy, which is not installed: take the binary version of CIFAR-10"
        ) from error
    return torch.from_numpy(entries[b"data"]), torch.tensor(entries[b"labels"])


class _Careful(pickle.Unpickler):
    """Builds arrays and nothing else: a pickle may otherwise run any code."""

    def find_class(self, module: str, name: str) -> Any:
        array = module.split(".")[0] == "numpy" and name in ("_reconstruct", "ndarray", "dtype")
        # How Python 3 writes bytes for Python 2.
        if array or (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} has no business in the files of CIFAR-10")
