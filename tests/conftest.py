"""What all tests share: a clean environment, and where the repository is."""

import gc
import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.lint.runtime import garbage
from tests.support import fast
from tests.support.fast import is_fast, put_slow_files_first, starting_nothing

REPOSITORY = Path(__file__).resolve().parent.parent

# What a launcher, a CI service or a terminal may have set, and what would change a program or an output.
_FOREIGN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")
# Where a service has put the repository.
_SERVICES = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
_FOREIGN_PREFIXES = ("TORCHELASTIC_", "SLURM_", "NCCL_", "GPUDOCTOR_")
_TERMINAL = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "CUDA_VISIBLE_DEVICES")

_MEMORY = "/dev/shm"
"""To make a file there takes a tenth of the processor time that a disk takes, and tests make tens of thousands."""
_ROOM = 4 << 30
"""Bytes: tests take a small part of it, but what they leave when they fail lies there as well."""

_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    for name in list(os.environ):
        if name in (*_FOREIGN, *_SERVICES, *_TERMINAL) or name.startswith(_FOREIGN_PREFIXES):
            monkeypatch.delenv(name)
    # Made only where it is used; results of one test are none of another's.
    caches = tmp_path_factory.getbasetemp() / "caches"
    monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(caches / str(next(_NUMBERS))))


def pytest_configure(config: pytest.Config) -> None:
    """Keep pytest-xdist from beginning with the files that have the most tests: these are the fast ones."""
    # Hundreds of processes are started, here and by tests: each would compile all modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if _has_room(_MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)
    # With gloo, a rank that has nothing to do may end before another has connected, which then fails in its stead.
    os.environ["TORCH_DIST_INIT_BARRIER"] = "1"
    # Twelve thousand tests are collected, none of which is garbage: looking for some takes a third of the time.
    gc.disable()
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def _has_room(folder: str) -> bool:
    """Whether there is such a folder with room for all that tests make."""
    return os.path.isdir(folder) and shutil.disk_usage(folder).free > _ROOM


def pytest_collection_finish() -> None:
    """What was collected lives until the end, as all that is old does, which is seldom looked at."""
    fast.note_collected()
    # Thawed again: what is tested freezes only where nobody else has.
    gc.freeze()
    gc.unfreeze()
    gc.enable()
    # Lint looks at all objects each time that it has made so many, and of these there are a million here.
    garbage._MANY *= 10


def pytest_sessionfinish() -> None:
    """Look once for what nobody has seen to fail; pytest would go five times through all that was collected."""
    gc.collect()
    gc.freeze()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a set in one order: the workers of pytest-xdist, each with its own hashes, must collect the same names."""
    return ",".join(sorted(map(str, val))) if isinstance(val, set | frozenset) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what `pytest -m fast` runs, and leave it for the end where several workers share the tests."""
    for item in items:
        if is_fast(item):
            item.add_marker("fast")
    if hasattr(config, "workerinput"):
        put_slow_files_first(items)


@pytest.fixture(autouse=True)
def _fast_tests_start_nothing(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("fast") is None:
        yield
        return
    with starting_nothing():
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def fixtures(repository: Path) -> Path:
    """The programs that the tests read."""
    return repository / "fixtures"
