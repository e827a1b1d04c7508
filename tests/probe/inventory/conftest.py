"""A driver made for the test: the fake library is compiled once, and a text says what it has to tell."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from machines import MACHINES, OLD_MACHINES

from gpudoctor.probe.inventory import Limits, take_inventory
from gpudoctor.probe.inventory.errand import Answers
from gpudoctor.probe.inventory.facts import Inventory
from gpudoctor.probe.inventory.take import put_together

# A process for each machine would take the tests half a minute.
_READ_ALL = """
import json, os, sys
from gpudoctor.probe.inventory import nvml
from gpudoctor.probe.inventory.plain import to_plain
for name, text in json.load(sys.stdin).items():
    path = os.path.join(sys.argv[1], name)
    open(path, "w").write(text)
    os.environ["FAKE_NVML"] = path
    told = [(type(each).__name__, to_plain(each)) for each in nvml.read() if not isinstance(each, str)]
    print(json.dumps([name, told]))
"""
SOURCE = Path(__file__).with_name("fake_nvml.c")
Take = Callable[..., Inventory]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Folders with a libnvidia-ml.so.1 each: of today's driver, and of an old one."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler to make a driver with")
    return {
        name: _compiled(compiler, tmp_path_factory.mktemp(name), options)
        for name, options in (("new", []), ("old", ["-DOLD_DRIVER"]))
    }


def _compiled(compiler: str, folder: Path, options: list[str]) -> Path:
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-O0", "-shared", "-fPIC", *options, "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True, timeout=60)
    return folder


@pytest.fixture(scope="session")
def fleet(libraries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Inventory]:
    """The inventories of all machines that neither hang nor crash, by name."""
    folder = tmp_path_factory.mktemp("fleet")
    return {**_read_all(MACHINES, libraries["new"], folder), **_read_all(OLD_MACHINES, libraries["old"], folder)}


def _read_all(machines: Mapping[str, str], library: Path, folder: Path) -> dict[str, Inventory]:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", _READ_ALL, str(folder)],
        input=json.dumps(machines),
        env={**os.environ, "LD_LIBRARY_PATH": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers = (json.loads(line) for line in run.stdout.splitlines())
    return {name: put_together({"nvml": Answers(tuple(map(tuple, told)))}, {}, 0.0) for name, told in answers}


@pytest.fixture
def fake_driver(libraries: Mapping[str, Path], tmp_path: Path) -> Callable[..., dict[str, str]]:
    """The environment in which a program meets this driver."""

    def environment(machine: str, *, driver: str = "new", **variables: str) -> dict[str, str]:
        described = tmp_path / "machine.txt"
        described.write_text(machine)
        ours = {"FAKE_NVML": str(described), "LD_LIBRARY_PATH": str(libraries[driver])}
        return {**os.environ, **ours, **variables}

    return environment


@pytest.fixture
def take(fake_driver: Callable[..., dict[str, str]]) -> Take:
    """The inventory of a machine as the fake driver tells it; torch is not asked."""

    def inventory(machine: str, *, driver: str = "new", limits: Limits | None = None, **variables: str) -> Inventory:
        here = fake_driver(machine, driver=driver, **variables)
        return take_inventory(limits, environment=here, ask_torch=False)

    return inventory
