"""Python processes that have torch loaded before they begin, for tests that start ranks (see `interpreter.py`).

    ended = warm.run(["-m", "gpudoctor", "run", "--nproc-per-node", "2", "train.py"], cwd=folder)
    report = warm.call("tests.probe.examining:examined", arguments)

One process for each worker of pytest loads torch, at the first question, and forks whatever is asked for; what those
start in turn is forked from them. It ends with the worker, and everything that it has started with it.
"""

import array
import atexit
import base64
import contextlib
import importlib
import inspect
import json
import os
import pickle
import selectors
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from gpudoctor.ranks.process_tree import ON_LINUX, die_with_parent

ROOT = Path(__file__).resolve().parents[2]
_MESSAGE_LIMIT = 1 << 20
_NETWORKS = Path("/run/netns")


def available() -> bool:
    """Whether there is torch, and a system that forks as Linux does."""
    return ON_LINUX and find_spec("torch") is not None


def run(
    arguments: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """`python ARGUMENTS` to its end, as `subprocess.run` would with captured output."""
    process = Process([sys.executable, *arguments], cwd=cwd, env=env)
    try:
        out, err = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(process.args, process.wait(timeout), out, err)


def call(function: str, *arguments: Any, timeout: float = 300, **named: Any) -> Any:
    """What `module:function` returns, called in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer"
        order = {"function": function, "given": _packed((arguments, named)), "answer": str(answer)}
        process = Process([], order=order)
        try:
            out, err = process.communicate(timeout)
        finally:
            process.kill()
        if not answer.exists():
            raise RuntimeError(f"{function} ended with {process.returncode}:\n{out}\n{err}")
        return pickle.loads(answer.read_bytes())


class Process:
    """A process that was forked for a command, as `subprocess.Popen` shows one; its output is kept in files."""

    def __init__(
        self,
        args: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        network: str = "",
        order: Mapping[str, Any] | None = None,
    ) -> None:
        self.args = list(args)
        self.returncode: int | None = None
        self._files = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115
        self._texts: list[str] = []
        wanted = {
            **(order or {}),
            "args": self.args,
            "cwd": str(cwd or os.getcwd()),
            "env": dict(os.environ if env is None else env),
            "network": network,
        }
        with open(os.devnull, "rb") as nothing:
            self.pid = _forks().start(wanted, [nothing.fileno(), *(each.fileno() for each in self._files)])

    def wait(self, timeout: float) -> int:
        """Its exit code, or minus the signal that ended it."""
        if self.returncode is None:
            self.returncode = _forks().ended(self.pid, timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout, *map(_text, self._files))
        while self._files:
            with self._files.pop(0) as file:
                self._texts.append(_text(file))
        return self.returncode

    def until(self, told: str, timeout: float) -> None:
        """Wait until it has written this to standard error."""
        deadline = time.monotonic() + timeout
        while told not in (said := _text(self._files[1])):
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(said)
            time.sleep(0.1)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it has written, once it has ended."""
        self.wait(timeout)
        out, err = self._texts
        return out, err

    def kill(self) -> None:
        """End it, where it has not ended by itself."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)
            self.wait(60)


def _text(file: IO[bytes]) -> str:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode(errors="replace")


class _Forks:
    """This side of the process that has loaded torch."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        quiet = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm", str(theirs.fileno())],
                cwd=ROOT,
                env={**os.environ, **quiet},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._control.settimeout(300)
        self._statuses: dict[int, int] = {}
        if self._heard() != {"ready": True}:
            raise RuntimeError("the process that loads torch for the tests did not start")
        atexit.register(self.close)

    def close(self) -> None:
        """End it, and with it all that it has started."""
        self._control.close()
        self._server.wait(120)

    def start(self, order: Mapping[str, Any], streams: Sequence[int]) -> int:
        """The process that was forked for an order."""
        # Messages of a socket are small; what is ordered need not be.
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(order, file)
            file.flush()
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
            self._control.sendmsg([file.name.encode()], rights)
            self._control.settimeout(300)
            while "started" not in (heard := self._heard()):
                self._note(heard)
        return int(heard["started"])

    def ended(self, pid: int, seconds: float) -> int | None:
        """How a process has ended; None where it has not."""
        deadline = time.monotonic() + seconds
        while pid not in self._statuses:
            self._control.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                self._note(self._heard())
            except TimeoutError:
                return None
        return self._statuses.pop(pid)

    def _note(self, heard: Mapping[str, int]) -> None:
        self._statuses[heard["ended"]] = heard["status"]

    def _heard(self) -> dict[str, Any]:
        message = self._control.recv(_MESSAGE_LIMIT)
        if not message:
            raise RuntimeError("the process that has loaded torch for the tests is gone")
        heard: dict[str, Any] = json.loads(message)
        return heard


@cache
def _forks() -> _Forks:
    return _Forks()


def serve(control: socket.socket) -> None:
    """Load torch, then fork a process for each order until nobody is there any more."""
    die_with_parent()
    _load()
    from tests.support import interpreter

    interpreter.remember()
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ)
    _tell(control, {"ready": True})
    while True:
        for key, _ in selector.select():
            if key.fileobj is control:
                message, streams, _, _ = socket.recv_fds(control, _MESSAGE_LIMIT, 3)
                if not message:
                    return
                order = json.loads(Path(message.decode()).read_bytes())
                pid = os.fork()
                if pid == 0:
                    _obey(order, streams)
                for each in streams:
                    os.close(each)
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ, data=pid)
                _tell(control, {"started": pid})
            else:
                selector.unregister(key.fileobj)
                os.close(key.fd)
                _, status = os.waitpid(key.data, 0)
                _tell(control, {"ended": key.data, "status": os.waitstatus_to_exitcode(status)})


def _load() -> None:
    """Torch, and what it loads when a program first trains, communicates or is launched."""
    import gc

    # What is loaded is no garbage, and stays: looking for some takes a fifth of the time.
    gc.disable()
    import torch
    import torch.distributed.run
    import torch.nn.parallel
    import torch.optim
    import torch.utils.data

    with contextlib.suppress(ImportError):
        import torch._dynamo
    # Who runs it as a program would be told that it is imported already.
    del sys.modules["torch.distributed.run"]
    _look_at_stacks_without_sources()
    torch.set_num_threads(1)
    # Forked children then neither copy nor search what torch brought along.
    gc.freeze()
    gc.enable()


def _look_at_stacks_without_sources() -> None:
    """Let torchrun's log find out who calls it without the line that calls.

    It asks some twenty times as it starts, and Python looks through thousands of modules for each frame that has no
    file: a second of processor time for each job, in place of a thousandth.
    """

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        frame, found = sys._getframe(1), []
        while frame is not None:
            code = frame.f_code
            found.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
            frame = frame.f_back  # type: ignore[assignment]
        return found

    quick = types.ModuleType("inspect")
    vars(quick).update(vars(inspect), stack=stack)
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed.elastic.") and getattr(module, "inspect", None) is inspect:
            module.inspect = quick  # type: ignore[attr-defined]


def _obey(order: Mapping[str, Any], streams: Sequence[int]) -> None:
    """In the child: be what was ordered."""
    from tests.support import interpreter

    try:
        die_with_parent()
        interpreter.place_streams(*streams)
        interpreter.close_others((), every=True)
        os.chdir(order["cwd"])
        if order["network"]:
            _enter(order["network"])
        program = interpreter.program_of(order["args"])
        if program is None:
            code = "import sys; from tests.support.warm import answer; answer(*sys.argv[1:])"
            words = [order["function"], order["given"], order["answer"]]
            program = interpreter.Program("-c", code, words, unbuffered=False)
        interpreter.become(program, order["env"])
    finally:
        os._exit(255)


def answer(function: str, given: str, target: str) -> None:
    """Call it, and write what it returns."""
    module, _, name = function.partition(":")
    arguments, named = pickle.loads(base64.b64decode(given))
    found = getattr(importlib.import_module(module), name)(*arguments, **named)
    Path(target).write_bytes(pickle.dumps(found))


def _packed(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def _enter(network: str) -> None:
    """As `ip netns exec` does."""
    import ctypes

    with (_NETWORKS / network).open("rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"the network {network} cannot be entered")


def _tell(control: socket.socket, message: Mapping[str, Any]) -> None:
    control.send(json.dumps(message).encode())


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as control_socket:
        serve(control_socket)
