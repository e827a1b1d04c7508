"""Start the user's command with the instruments waiting in it, and stay beside it until it ends.

The command is a child in our own process group and has our streams: what the terminal sends reaches both, what is sent
to us alone is handed on, and the child ends when we are killed. Where this machine plays several, there is one such
child for each of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.ranks.process_tree import children, descendants, die_with_parent, state_of
from gpudoctor.ranks.starting import module_command
from gpudoctor.record import dataclass
from gpudoctor.run.startup_agent import FOLDER, LAUNCHER, NEXT, SKIPPED_KERNELS, VIRTUAL_GPUS

STARTUP = Path(__file__).parent / "startup"
_LOOK_EVERY = 0.2
_HANDED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FROM_TERMINAL = 128
"""`si_code` of a signal that the kernel sent: the whole process group has got it then."""
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NONE = ("", "-1")
_TORCHRUN = "torch.distributed.run"
_RANKS = "--nproc-per-node="
_ONE_RANK = f"{_RANKS}1"
_PATIENCE = 5.0
"""Seconds that a job which is to end may take for it."""
_NODES_PATIENCE = 15.0
"""Seconds that the other nodes may go on after one has failed."""


@dataclass(frozen=True)
class Ended:
    """How the command ended: its exit code as a shell would see it, None where we have ended it."""

    status: int | None
    seconds: float
    told_to_end: float | None = None
    """When SIGTERM came first, in seconds since the epoch."""


def run_command(
    command: Sequence[str],
    folder: Path,
    look: Callable[[bool], bool],
    virtual_gpus: int | None = None,
    skip_kernels: Sequence[str] = (),
    variables: Sequence[Mapping[str, str]] = ({},),
) -> Ended:
    """Run it to its end. `look` is called several times a second with whether the job has been told to end, and says
    whether we are to end it.

    With `virtual_gpus`, the command sees so many of these instead of what GPUs there are, and stand-ins for the
    modules `skip_kernels`. It is started once for each of `variables`, which are added to its environment.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDED_ON)
    began, told_to_end, asked = time.monotonic(), None, False
    environment = _environment(command, folder, virtual_gpus, skip_kernels)
    started: list[_Child] = []
    codes = _ExitCodes(started)
    try:
        started.extend(_start(command, {**environment, **own}, blocked) for own in variables)
        while not codes.over():
            told = signal.sigtimedwait(_HANDED_ON, _LOOK_EVERY)
            # Signals are waited for and not handled, so that they interrupt nothing of ours.
            # Who is stopped and goes on later than this gets from Python what lay in memory.
            if told is not None and told.si_signo in _HANDED_ON:
                for child in started:
                    _hand_on(told, child)
                asked = asked or told.si_signo in _ENDS
                if told.si_signo == signal.SIGTERM and told_to_end is None:
                    told_to_end = time.time()
            elif look(asked):
                _end(started, _is_our_launcher(command))
                return Ended(None, time.monotonic() - began, told_to_end)
        _end(started, _is_our_launcher(command))
        return Ended(codes.status, time.monotonic() - began, told_to_end)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class _ExitCodes:
    """The processes that were started together, and the exit code of the first that failed."""

    def __init__(self, started: Sequence[_Child]) -> None:
        self._started = started
        self._failed_at = 0.0
        self.status = 0

    def over(self) -> bool:
        """All have ended, or one has failed and the others have had time to see it."""
        codes = [child.poll() for child in self._started]
        if not self.status:
            # As shells say it.
            self.status = next((128 - code if code < 0 else code for code in codes if code), 0)
            self._failed_at = time.monotonic()
        late = bool(self.status) and time.monotonic() - self._failed_at > _NODES_PATIENCE
        return late or None not in codes


_Child = subprocess.Popen[bytes]


def _start(command: Sequence[str], environment: Mapping[str, str], mask: Iterable[int]) -> _Child:
    # The mask is inherited, and the script must hear what it is told.
    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        die_with_parent()

    try:
        return subprocess.Popen(list(command), env=environment, preexec_fn=prepare)
    except FileNotFoundError:
        raise UsageError(f"there is no command `{command[0]}`") from None
    except OSError as error:
        raise UsageError(f"`{command[0]}` cannot be started: {error.strerror}") from error


def _environment(
    command: Sequence[str], folder: Path, virtual_gpus: int | None, skip_kernels: Sequence[str]
) -> dict[str, str]:
    path = os.pathsep.join(part for part in (str(STARTUP), os.environ.get("PYTHONPATH")) if part)
    environment = {**os.environ, FOLDER: str(folder), "PYTHONPATH": path}
    if _is_our_launcher(command):
        environment[LAUNCHER] = NEXT
        if _ONE_RANK not in command:
            # As the launcher does by itself, which then says so in five lines.
            environment.setdefault("OMP_NUM_THREADS", "1")
    if skip_kernels:
        environment[SKIPPED_KERNELS] = ",".join(skip_kernels)
    if virtual_gpus is not None:
        environment[VIRTUAL_GPUS] = str(virtual_gpus)
        # Who hides all GPUs from a command wants it to do without them; who asks for virtual ones does not.
        if environment.get(_VISIBLE) in _NONE:
            del environment[_VISIBLE]
    return environment


def _hand_on(told: signal.struct_siginfo, child: _Child) -> None:
    if told.si_code != _FROM_TERMINAL:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(told.si_signo)


def _end(started: Sequence[_Child], is_our_launcher: bool) -> None:
    """Ask the job to end, and kill what does not."""
    left = [child for child in started if child.poll() is None]
    if not left:
        return
    # Asked before anybody ends: the children of a launcher that is gone belong to nobody.
    told = [child.pid for child in left]
    everybody = [pid for child in left for pid in (child.pid, *descendants(child.pid))]
    if is_our_launcher:
        # Nothing failed: it must not see its ranks end, of which it would write two pages.
        told = [pid for child in left for pid in children(child.pid)]
        for child in left:
            child.send_signal(signal.SIGSTOP)
    for pid in told:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _PATIENCE
    while any(map(state_of, told)) and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY / 4)
    for pid in everybody:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    for child in left:
        child.wait()


def _is_our_launcher(command: Sequence[str]) -> bool:
    """Whether it is torch's launcher as we start it: its ranks are to end when we are killed, and it with us."""
    start = module_command(_TORCHRUN)
    return list(command[: len(start)]) == start


def python_command(program: Sequence[str], *, module: bool, ranks: int | None, nodes: int = 1) -> list[str]:
    """The command that runs `program` as Python would, or under torch's launcher with so many ranks on each node."""
    command = [*(["-m"] if module else []), *program]
    if not ranks:
        return [sys.executable, *command]
    # The launcher is no part of the user's program: only its ranks look beside the script for modules. One of several
    # nodes is told by its environment where the others are.
    alone = ["--standalone"] if nodes == 1 else []
    return module_command(_TORCHRUN, *alone, f"{_RANKS}{ranks}", *command)
