"""`--data cifar10:PATH` trains on files in the format of CIFAR-10; here they hold few images that are easy to tell."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from probe.conftest import probe

from gpudoctor.errors import UsageError
from gpudoctor.probe.epochs import judged
from gpudoctor.probe.measurement_plan import World
from gpudoctor.probe.results import StepResult, Verdict
from gpudoctor.probe.workloads import cifar10_files


def _image(label: int, number: int) -> bytes:
    """Bright in the stripe of its label, with some noise."""
    rows = [(200 if row // 3 == label else 40) + (number * 7 + row * 13) % 30 for row in range(32)]
    return bytes(value for _ in range(3) for value in rows for _ in range(32))


def _write_binary(folder: Path, each: int) -> None:
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        rows = [bytes([index % 10]) + _image(index % 10, index) for index in range(each)]
        (folder / f"{name}.bin").write_bytes(b"".join(rows))


def test_an_epoch_on_the_real_format(real_ranks: None, tmp_path: Path, repository: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    _write_binary(folder, 256)
    ended = probe(repository, "--data", f"cifar10:{tmp_path}", "--workload", "linear", "--output-format", "json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    document = json.loads(ended.stdout)
    rows = {row["strategy"]: row for row in document["steps"] if row["workload"] == "cifar10-files"}
    assert rows.keys() == {"single", "ddp"}
    assert rows["single"]["steps"] == 10
    assert rows["ddp"]["steps"] == 5
    for row in rows.values():
        assert row["seconds_per_epoch"] > 0
        assert 0 <= row["loader_wait"] <= 1
        assert row["accuracy"] > 0.15
        assert row["last_loss"] < row["first_loss"]
    (check,) = [check for check in document["checks"] if check["name"] == "epoch-time"]
    assert check["verdict"] == "skipped"


@pytest.mark.slow
def test_the_version_for_python_is_read(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    for name in ("data_batch_1", "test_batch"):
        data = numpy.frombuffer(_image(3, 0) + _image(4, 1), dtype=numpy.uint8).reshape(2, -1)
        (tmp_path / name).write_bytes(pickle.dumps({b"data": data.copy(), b"labels": [3, 4]}, protocol=2))
    images, labels = cifar10_files.read(cifar10_files.folder_of(str(tmp_path)), train=True)
    assert images.shape == (2, 3, 32, 32)
    assert images.dtype == torch.uint8
    assert labels.tolist() == [3, 4]


@pytest.mark.slow
def test_a_pickle_runs_no_code(tmp_path: Path) -> None:
    pytest.importorskip("torch")

    class Trap:
        def __reduce__(self) -> Any:
            return print, ("caught",)

    for name in ("data_batch_1", "test_batch"):
        (tmp_path / name).write_bytes(pickle.dumps(Trap()))
    with pytest.raises(pickle.UnpicklingError, match="no business"):
        cifar10_files.read(str(tmp_path), train=True)


def test_a_folder_without_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds neither `data_batch_1` and `test_batch`"):
        cifar10_files.folder_of(str(tmp_path))


@pytest.mark.parametrize(
    ("seconds", "accuracy", "verdict"),
    [(2.8, 0.6, Verdict.PASS), (7.0, 0.6, Verdict.WARN), (2.8, 0.4, Verdict.WARN)],
)
def test_verdict(seconds: float, accuracy: float, verdict: Verdict) -> None:
    world = World(("n",) * 4, (0, 1, 2, 3), "nccl", "cuda")
    alone = StepResult("cifar10-files", "single", 1, accuracy=0.61, seconds_per_epoch=10.0)
    row = StepResult("cifar10-files", "ddp", 4, accuracy=accuracy, seconds_per_epoch=seconds)
    assert judged(world, [alone, row]).verdict is verdict
