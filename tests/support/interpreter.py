"""Being the Python process of a command line without starting one: what a forked process does to be `python ARGUMENTS`.

The process that forks has loaded torch (`warm.py`), which an interpreter takes more than a second of processor time
for, and torchrun with two ranks four times that. All else is as in a process that was started: its environment,
streams and descriptors, its signals, the path of modules, `sitecustomize`, how it ends. Torch itself is there, but is
not imported until the program imports it: who waits for that is told.

Known differences: `sys.flags` and the seed of hashes are those of the process that was forked, and `/proc` shows that
one's command and environment.
"""

import atexit
import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import multiprocessing.process
import os
import random
import runpy
import shutil
import signal
import site
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from tests.support import spares

LAUNCHER = "torch.distributed.run"
SPARES = 3
"""Processes that a script may start through the spawn method before they take seconds."""


class Program(NamedTuple):
    """What an interpreter is to run: `-c CODE`, `-m MODULE` or a script, and its arguments."""

    kind: str
    what: str
    arguments: list[str]
    unbuffered: bool

    @property
    def spawns(self) -> bool:
        """Whether it is a script that may start processes by the spawn method: its text says so."""
        script = Path(self.what)
        return self.kind == "script" and script.is_file() and b"spawn" in script.read_bytes()

    @property
    def launches(self) -> bool:
        """Whether it is torch's launcher, whose ranks will be forked from it."""
        return LAUNCHER in (self.what, *self.arguments[:1]) or os.path.basename(self.what) == "torchrun"


class _State(NamedTuple):
    """An interpreter as it was before any program ran."""

    modules: dict[str, ModuleType]
    finders: list[Any]
    path: list[str]
    filters: list[Any]


_pristine: _State | None = None
_kept: list[Any] = []


def remember() -> None:
    """Take this process for what each program begins with; from now on its Python processes are forked, too."""
    global _pristine
    ours = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    path = [entry for entry in sys.path[1:] if os.path.abspath(entry) not in ours]
    # What an editable install adds stays, though PYTHONPATH names it, too.
    for folder in site.getsitepackages():
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            if name.endswith(".pth"):
                with open(os.path.join(folder, name), encoding="utf-8") as lines:
                    path += [line.strip() for line in lines if os.path.isdir(line.strip())]
    _pristine = _State(dict(sys.modules), list(sys.meta_path), list(dict.fromkeys(path)), list(warnings.filters))
    subprocess.Popen._execute_child = _forked_or_started  # type: ignore[attr-defined]


def program_of(command: Sequence[str]) -> Program | None:
    """What a command runs in this Python; None where it is another command, or has options that take a real start."""
    words = [os.fspath(word) for word in command]
    if words and _is_of_this_python(words[0]):
        words[:1] = [sys.executable, str(shutil.which(words[0]))]
    if not words or words[0] != sys.executable:
        return None
    unbuffered = False
    for place, word in enumerate(words[1:], 1):
        if word == "-u":
            unbuffered = True
        elif word in ("-c", "-m"):
            return Program(word, words[place + 1], words[place + 2 :], unbuffered) if len(words) > place + 1 else None
        elif word.startswith("-"):
            return None
        else:
            return Program("script", word, words[place + 1 :], unbuffered)
    return None


def _is_of_this_python(name: str) -> bool:
    """Whether a command is a script that was installed beside this Python, such as `torchrun`, and is run by it."""
    script, folder = shutil.which(name), os.path.dirname(sys.executable)
    if script is None or os.path.dirname(script) != folder or script == sys.executable:
        return False
    with open(script, "rb") as file:
        return file.readline().startswith(f"#!{folder}/python".encode())


def become(program: Program, environment: Mapping[str, str]) -> NoReturn:
    """Be the interpreter that runs the program, in a process that was forked for it, until that ends."""
    status = 1
    try:
        _forget(environment)
        if program.spawns:
            spares.prepare(SPARES, _be_spawned)
        status = _ended(lambda: _run(program))
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
        with contextlib.suppress(BaseException):
            sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)
        os._exit(status & 0xFF)


def _be_spawned(_: int, command: Sequence[str]) -> NoReturn:
    """In a spare, which was forked before the program ran."""
    code, words = spares.code_and_words(command)
    become(Program("-c", code, words, unbuffered=False), dict(os.environ))


def _forget(environment: Mapping[str, str]) -> None:
    """Leave nothing of the process that was forked: its modules, signals, environment and randomness."""
    assert _pristine is not None
    # Whatever a file was that is forgotten, it would close a number that somebody else has by then.
    _kept.extend([*sys.modules.values(), *sys.meta_path])
    gc.freeze()
    os.environ.clear()
    os.environ.update(environment)
    sys.meta_path[:] = _pristine.finders
    warnings.filters[:] = _pristine.filters  # type: ignore[index]
    for name in [name for name in sys.modules if name not in _pristine.modules and not _of_library(sys.modules[name])]:
        del sys.modules[name]
    sys.modules.update(_pristine.modules)
    # Locks of imports that another thread was in the middle of.
    importlib._bootstrap._module_locks.clear()  # type: ignore[attr-defined]
    importlib._bootstrap._blocking_on.clear()  # type: ignore[attr-defined]
    for module in list(sys.modules.values()):
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            sys.modules.pop(module.__name__, None)
    # Where a process was when it began is what a path that is not absolute goes by.
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
    _forget_signals()
    atexit._clear()
    faulthandler.disable()
    random.seed()
    for library, seed in (("torch", lambda module: module.seed()), ("numpy", lambda module: module.random.seed())):
        if library in sys.modules:
            seed(sys.modules[library])
    if (torch := sys.modules.get("torch")) is not None:
        # At its first use torch makes the pool of its threads anew in a process that was forked: of two threads that
        # come at once, as those of `DataParallel`, the second would find none.
        torch.set_num_threads(torch.get_num_threads())


def _of_library(module: ModuleType) -> bool:
    """Whether it came with Python or was installed, so that it is the same in each program."""
    file = getattr(getattr(module, "__spec__", None), "origin", None)
    return file in ("built-in", "frozen") or str(file).startswith((sys.prefix, sys.base_prefix))


def _forget_signals() -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_IGN)


def _run(program: Program) -> None:
    assert _pristine is not None
    if program.unbuffered or os.environ.get("PYTHONUNBUFFERED"):
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    added = [os.path.abspath(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = list(dict.fromkeys([*added, *_pristine.path]))
    sys.path_importer_cache.clear()
    torch = sys.modules.pop("torch", None)
    finder = _Loaded(torch) if torch is not None else None
    if finder is not None:
        sys.meta_path.insert(0, finder)
    # Debian's Python has imported one of its own.
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
    if program.launches and finder is not None and torch is not None:
        # Ranks are forked from it: what waits for torch must not be in place there already.
        sys.meta_path.remove(finder)
        sys.modules["torch"] = torch
    safe = bool(os.environ.get("PYTHONSAFEPATH")) and sys.version_info >= (3, 11)
    if program.kind == "script":
        sys.argv = [program.what, *program.arguments]
        if not safe:
            sys.path.insert(0, os.path.dirname(os.path.realpath(program.what)))
        # What the program holds when it ends lives until Python ends, as in a process that was started.
        _kept.append(runpy.run_path(program.what, run_name="__main__"))
        return
    if program.kind == "-m":
        sys.argv = [program.what, *program.arguments]
        if not safe:
            sys.path.insert(0, os.getcwd())
        _kept.append(runpy.run_module(program.what, run_name="__main__", alter_sys=True))
        return
    sys.argv = ["-c", *program.arguments]
    if not safe:
        sys.path.insert(0, "")
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    exec(compile(program.what, "<string>", "exec"), vars(main))


class _Loaded(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torch, and hands over what has been loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def find_spec(self, name: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != self._module.__name__:
            return None
        spec = importlib.util.spec_from_file_location(
            name, self._module.__file__, loader=self, submodule_search_locations=list(self._module.__path__)
        )
        assert spec is not None
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


def _ended(work: Callable[[], None]) -> int:
    """Do the work and what a Python process does at its end; its exit code."""
    status = 0
    try:
        work()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if not isinstance(end.code, (int, type(None))):
            print(end.code, file=sys.stderr)
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    return status


_START = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_PARAMETERS = inspect.signature(_START)


def _forked_or_started(self: Any, *given: Any, **named: Any) -> None:
    """In the place of what `subprocess.Popen` does to start a command: a Python process is forked from this one."""
    asked = _PARAMETERS.bind(self, *given, **named).arguments
    words = asked["args"]
    program = None if isinstance(words, (str, bytes)) or asked["shell"] else program_of(words)
    if program is None or any(asked.get(name) not in (None, -1) for name in ("gid", "gids", "uid")):
        _START(self, *given, **named)
        return
    environment = dict(os.environ if asked["env"] is None else asked["env"])
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        self.pid = os.fork()
    if self.pid == 0:
        try:
            _prepare(asked)
            become(program, environment)
        finally:
            os._exit(255)
    self._child_created = True
    self._close_pipe_fds(
        *(asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"))
    )


def _prepare(asked: Mapping[str, Any]) -> None:
    """What happens between fork and exec: streams, folder, session, descriptors."""
    place_streams(asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
    if asked["cwd"] is not None:
        os.chdir(asked["cwd"])
    if asked["start_new_session"]:
        os.setsid()
    if asked.get("process_group", -1) not in (None, -1):
        os.setpgid(0, asked["process_group"])
    if asked["preexec_fn"] is not None:
        asked["preexec_fn"]()
    close_others(asked["pass_fds"], every=asked["close_fds"])


def place_streams(*descriptors: int) -> None:
    """Make these the standard streams; -1 leaves one as it is."""
    # Out of the way first: one of them may have the number that another one is to get.
    high = [fcntl.fcntl(each, fcntl.F_DUPFD, 64) if each != -1 else -1 for each in descriptors]
    for number, each in enumerate(high):
        if each != -1:
            os.dup2(each, number)
            os.close(each)


def close_others(kept: Sequence[int], *, every: bool) -> None:
    """Close what would not outlive the start of a program; where `every` is not asked for, what says so itself."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept and number != nothing:
            with contextlib.suppress(OSError):
                if every or fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                    _close(number, nothing)
    os.close(nothing)


def _close(number: int, nothing: int) -> None:
    # At each fork libuv, which torch's store is made of, closes the pipe that it had here, whoever has its numbers by
    # then. So nobody gets them.
    if os.readlink(f"/proc/self/fd/{number}").startswith("pipe:"):
        os.dup2(nothing, number, inheritable=False)
    else:
        os.close(number)
