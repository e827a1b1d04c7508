"""Which tests are fast: those that start no process, load no torch and are not marked as slow.

Found out, not written down: a test, its fixtures and the helpers that they call are looked through for what starts a
process. What that overlooks fails when it runs: nothing can be started, and no torch loaded, inside `starting_nothing`.

With several workers, files that are slow begin first: at the end each worker is to find something short to do.
"""

import contextlib
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parents[1]
STARTERS = frozenset({"subprocess", "multiprocessing", "torch", "fork", "execv", "posix_spawn"})
"""Names that a process begins with, or the seconds that loading torch takes."""
_EVENTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.exec"})

_MISSING = object()

loaded_while_collecting = False
"""Whether a file of tests has loaded torch when it was imported, as each worker does with all of them."""
_forbidden = False
_watching = False


def is_fast(item: pytest.Item) -> bool:
    """Whether a test and its fixtures do all that they do in this process, and soon."""
    if item.get_closest_marker("slow") or not isinstance(item, pytest.Function):
        return False
    fixtures = [each.func for found in item._fixtureinfo.name2fixturedefs.values() for each in found]
    used = {mark.args for mark in item.iter_markers("usefixtures")}
    return not used and not any(map(starts, (item.function, *fixtures)))


def note_collected() -> None:
    """All files of tests were imported."""
    global loaded_while_collecting
    loaded_while_collecting = "torch" in sys.modules


WAITS = "test_hangs.py"
"""The file whose ranks stand still for five minutes in all, while others compute: whoever has it begins with it."""


def put_slow_files_first(items: list[pytest.Item]) -> None:
    """Order by files: those first that probably take longest. A slow test takes as long as twenty fast ones."""
    weight: Counter[Path] = Counter({item.path: len(items) * 20 for item in items if item.path.name == WAITS})
    for item in items:
        weight[item.path] += 1 if item.get_closest_marker("fast") else 20
    items.sort(key=lambda item: -weight[item.path])


@cache
def starts(thing: Any) -> bool:
    """Whether a function, or another one of the tests that it calls, may start a process or load torch."""
    seen: set[int] = set()
    waiting = [thing]
    while waiting:
        function = inspect.unwrap(waiting.pop())
        function = getattr(function, "__func__", function)
        if id(function) in seen or not isinstance(function, (FunctionType, type)):
            continue
        seen.add(id(function))
        if isinstance(function, type):
            waiting += [value for value in vars(function).values() if isinstance(value, FunctionType)]
            continue
        names = _names(function.__code__)
        if names & STARTERS:
            return True
        known = {name: function.__globals__.get(name) for name in names}
        parts = [
            value
            for value in known.values()
            if isinstance(value, ModuleType) and _ours(getattr(value, "__file__", None))
        ]
        known_parts = [vars(part).get(name) for part in parts for name in names]
        waiting += [each for each in (*known.values(), *known_parts) if _is_helper(each)]
    return False


def _is_helper(value: Any) -> bool:
    """A function or a class of the tests."""
    if not isinstance(value, (FunctionType, type)):
        return False
    return _ours(getattr(sys.modules.get(value.__module__), "__file__", None))


def _ours(file: str | None) -> bool:
    return file is not None and Path(file).is_relative_to(TESTS)


def _names(code: CodeType) -> set[str]:
    """All names that are looked up in a function and in those inside it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= _names(constant)
    return {part for name in found for part in name.split(".")}


@contextlib.contextmanager
def starting_nothing() -> Iterator[None]:
    """Inside, starting a process is an error, and loading torch."""
    global _forbidden, _watching
    if not _watching:
        sys.addaudithook(_refuse)
        _watching = True
    _forbidden = True
    try:
        yield
    finally:
        _forbidden = False


def _refuse(event: str, arguments: Any) -> None:
    if not _forbidden:
        return
    if event in _EVENTS:
        raise AssertionError(f"a test that counts as fast starts a process ({event}); mark it with pytest.mark.slow")
    if event == "import" and arguments[0] == "torch" and _is_torch_itself():
        raise AssertionError("a test that counts as fast loads torch; mark it with pytest.mark.slow")


def _is_torch_itself() -> bool:
    """Not a test's own file of that name, and not refused by a test."""
    found = PathFinder.find_spec("torch") if sys.modules.get("torch", _MISSING) is not None else None
    return found is not None and found.submodule_search_locations is not None
