"""A process that has imported torch once and becomes, by forking, every rank of every proof.

What a proof takes besides is imported once, too, in a fork of its own.

Reads the folder of a proof from each line of stdin. For each it forks a guardian, which forks the ranks, waits for
them within the limits and writes `outcome.json`; the folder's name on stdout says that it is there. Ends, and takes
everything with it, when stdin is closed.
"""

import atexit
import gc
import importlib
import json
import os
import pickle
import random
import runpy
import signal
import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import torch
import torch._dynamo
import torch.distributed
import torch.nn.parallel
import torch.optim
import torch.utils.data

from gpudoctor.ranks.process_tree import adopt_orphans, die_with_parent
from gpudoctor.run import instruments, places
from gpudoctor.run.hang import Watch
from tests.support import spares
from tests.support.ranks import RankLimits, supervise

from . import observer, record

SPARES = 4
"""Processes that one launcher may start through the spawn method before the slow way is taken."""


def serve() -> None:
    """Fork one guardian for each proof that is asked for."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _settle()
    print("ready", flush=True)
    loaded: dict[str, TextIO] = {}
    for line in sys.stdin:
        folder = Path(line.strip())
        libraries = " ".join(json.loads((folder / "request.json").read_text())["requires"])
        if libraries and libraries not in loaded:
            loaded[libraries] = _with_libraries(libraries.split())
        if libraries:
            print(folder, file=loaded[libraries], flush=True)
        else:
            _fork_guardian(folder)


def _with_libraries(names: list[str]) -> TextIO:
    """Fork a process that has imported these as well, and forks the guardians of proofs that it reads from the file."""
    reads, writes = os.pipe()
    if os.fork() == 0:
        os.close(writes)

        def serve_those() -> None:
            for name in names:
                importlib.import_module(name)
            _settle()
            with os.fdopen(reads) as asked:
                for line in asked:
                    _fork_guardian(Path(line.strip()))

        _in_child(serve_those)
    os.close(reads)
    return os.fdopen(writes, "w")


def _settle() -> None:
    """What was imported is neither copied nor searched by forked children."""
    gc.collect()
    gc.freeze()
    # Nor do they take apart what ends with the process: some 170 libraries of torch unregister their operators.
    for each in list(weakref.finalize._registry):
        each.atexit = False


def _fork_guardian(folder: Path) -> None:
    if os.fork() == 0:
        _in_child(lambda: _guard(folder))


def _in_child(work: Callable[[], int | None]) -> None:
    """Run `work` and end the process without returning into the server's loop."""
    status = 1
    try:
        status = work() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def _guard(folder: Path) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    die_with_parent()
    adopt_orphans()
    os.setsid()
    request = json.loads((folder / "request.json").read_text())
    ranks = []
    for number, environment in enumerate(request["environments"]):
        pid = os.fork()
        if pid == 0:
            _in_child(lambda number=number, environment=environment: _become_rank(folder, request, number, environment))
        ranks.append(pid)
    exits = supervise(ranks, RankLimits(**request["limits"]), lambda: _ask_where_they_are(folder))
    outcome = [{"ending": each.ending.value, "status": each.status} for each in exits]
    (folder / "outcome.json").write_text(json.dumps(outcome))
    os.write(sys.stdout.fileno(), f"{folder}\n".encode())


def _ask_where_they_are(folder: Path) -> None:
    """As `gpudoctor run` does it, before the ranks are killed because they stand still."""
    watch = Watch(folder / record.RECORDING, patience=-1.0)
    (folder / record.HANG).write_bytes(pickle.dumps(watch.look()))


def _observe(folder: Path, program: Path, identity: dict[str, object]) -> observer.Journal:
    """The observer for the claims, and over it the instruments of `gpudoctor run`, which look for the user's lines."""
    journal = observer.install(folder, program, identity)
    # What stands between the program and the instruments here is no code of the user's.
    places.FOREIGN += (str(Path(observer.__file__).parent),)
    instruments.install(str(folder / record.RECORDING))
    return journal


def _become_rank(folder: Path, request: dict[str, object], number: int, environment: dict[str, str]) -> int:
    """Be a fresh interpreter that runs the program; return its exit code."""
    os.setsid()
    die_with_parent()
    program = Path(request["program"])
    script = program / request["script"]
    _redirect(folder, str(number))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(program)
    sys.argv = [str(script), *request["arguments"]]
    sys.path[0] = str(script.parent)
    _forget_randomness()
    if request["launch"] == "spawn":
        _spawn_from_spares(folder, program)
    role = "launcher" if request["launch"] == "spawn" else "rank"
    _observe(folder, program, {"role": role, "number": number, "output": str(number)})
    return _run(script)


def _spawn_from_spares(folder: Path, program: Path) -> None:
    """Let mp.spawn, in the program and in its ranks, use processes that have imported torch."""

    def become_rank(spare: int, command: list[str]) -> int:
        output = f"spawned-{spare}"
        _redirect(folder, output)
        _forget_randomness()
        # Inside a spawned process the workers of a loader are spawned too.
        spares.prepare(SPARES, become_worker)
        journal = _observe(folder, program, {"role": "spawned", "number": spare, "output": output})
        status = spares.execute(command)
        journal.write("exit", status=status)
        return status

    def become_worker(spare: int, command: list[str]) -> int:
        _forget_randomness()
        return spares.execute(command)

    spares.prepare(SPARES, become_rank)


def _run(script: Path) -> int:
    """Run the program and its exit handlers as the interpreter would."""
    status = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if not isinstance(end.code, (int, type(None))):
            print(end.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _redirect(folder: Path, name: str) -> None:
    for descriptor, suffix in ((1, "out"), (2, "err")):
        file = os.open(folder / f"{name}.{suffix}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _forget_randomness() -> None:
    """A fresh interpreter seeds all of these from the operating system."""
    random.seed()
    torch.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


if __name__ == "__main__":
    serve()
