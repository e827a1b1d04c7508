"""A driver made for the test: the fake library is compiled once, and a text says what it has to tell."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from gpudoctor.probe.inventory import Limits, take_inventory
from gpudoctor.probe.inventory.facts import Inventory
from tests.support.fake_driver import compile_driver, compiler, read_all
from tests.support.inventories import MACHINES, OLD_MACHINES

Take = Callable[..., Inventory]


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Folders with a libnvidia-ml.so.1 each: of today's driver, and of an old one."""
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    if compiler() is None:
        pytest.skip("there is no C compiler to make a driver with")
    return {name: compile_driver(tmp_path_factory.mktemp(name), old=name == "old") for name in ("new", "old")}


@pytest.fixture(scope="session")
def fleet(libraries: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Inventory]:
    """The inventories of all machines that neither hang nor crash, by name."""
    folder = tmp_path_factory.mktemp("fleet")
    return {**read_all(MACHINES, libraries["new"], folder), **read_all(OLD_MACHINES, libraries["old"], folder)}


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
