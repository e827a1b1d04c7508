"""A thread that waits to be asked where this process is, and answers also while the program waits in a collective.

It holds no lock while it waits, and starts with the process group, whose own threads are there by then.
"""

from __future__ import annotations

import _thread
import faulthandler
import json
import math
import os
import pickle
import signal
import sys
from collections import deque
from types import FrameType
from typing import Any

import torch
from torch.distributed import distributed_c10d

from gpudoctor.run import clock
from gpudoctor.run.instruments.state import State
from gpudoctor.run.places import PACKAGE, is_own
from gpudoctor.run.protocol import ANSWER, ASKED_BY, HEARD, QUESTION
from gpudoctor.run.tcp_bytes import bytes_over_tcp
from gpudoctor.run.unresponsive import SIGNAL, STACK

_MOST_ENTRIES = 400
_DUMPS = ("_dump_fr_trace", "_dump_nccl_trace")
"""Functions that tell what was recorded: of all backends, since torch 2.8, and of NCCL, which may have its own."""
_KEEPS = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
CALLED: deque[dict[str, Any]] = deque(maxlen=_MOST_ENTRIES)
"""What the program itself has called, where PyTorch records nothing of the backend, as if all of it were done."""
_RENAMED = (2, 9)
_KEPT = 2_000
"""Collectives, as many as newer versions keep by default."""
_OF_WRAPPERS = ("torch/nn/parallel/distributed.py", "torch/autograd/graph.py")


def listen(state: State) -> None:
    """Begin to listen, once in each process."""
    folder = state.recorder.folder
    path = os.path.join(folder, QUESTION.format(pid=os.getpid()))
    if os.path.exists(path):
        return
    os.mkfifo(path, 0o600)
    # Open for writing, too: a pipe that nobody writes to would end at once.
    pipe = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    main = _thread.get_ident()
    answer = state.recorder.guarded(_answer)
    _prepare_for_silence(folder)

    def wait() -> None:
        while os.read(pipe, 1):
            answer(state, main)

    _thread.start_new_thread(wait, ())


def _prepare_for_silence(folder: str) -> None:
    """Have the stack written at a signal, for when a call that keeps Python's lock keeps this thread from answering."""
    # Who finds the file open sends the signal: that must not come to a handler of the program's own.
    if signal.getsignal(SIGNAL) is not signal.SIG_DFL:
        return
    path = os.path.join(folder, STACK.format(pid=os.getpid()))
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    faulthandler.register(SIGNAL, file=file, all_threads=False, chain=False)


def _answer(state: State, main: int) -> None:
    innermost = sys._current_frames().get(main)
    stack, root = _stack(innermost), _root(innermost)
    os.close(
        os.open(os.path.join(state.recorder.folder, HEARD.format(pid=os.getpid())), os.O_WRONLY | os.O_CREAT, 0o600)
    )
    said = {
        "at": clock.time(),
        "pid": os.getpid(),
        "steps": state.steps,
        "batches": state.batches,
        "transferred": bytes_over_tcp(),
        "variables": {name: os.environ[name] for name in ASKED_BY if name in os.environ},
        "stack": stack,
        "root": root,
        "collectives": collectives(),
        "told": _told(),
    }
    # Whole or not there at all: the parent reads as soon as it finds it.
    path = os.path.join(state.recorder.folder, ANSWER.format(pid=os.getpid()))
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(said, file, default=str)
    os.replace(f"{path}.new", path)


def _told() -> str:
    """What the stand-in for NCCL says of this process, where there is one."""
    agreement = sys.modules.get("gpudoctor.virtual.nccl_agreement")
    return agreement.CallAgreement.told if agreement is not None else ""


def _stack(frame: FrameType | None) -> list[list[Any]]:
    """Innermost first: file, line, function, and whether it is the user's own code."""
    stack = []
    while frame is not None:
        code = frame.f_code
        # As if the instruments were not there.
        if not code.co_filename.startswith(PACKAGE):
            stack.append([code.co_filename, frame.f_lineno, code.co_name, is_own(code.co_filename)])
        frame = frame.f_back
    return stack


def _root(frame: FrameType | None) -> str:
    """The rank that the program has named in a collective that has one, as `src=0`; empty where it is in none."""
    root = ""
    while frame is not None and not is_own(frame.f_code.co_filename):
        code = frame.f_code
        if code.co_filename.endswith(_CALLED_AT) and code.co_name.startswith(_ROOTED):
            given = frame.f_locals
            root = next((f"{name}={given[name]}" for name in _ROOTS if isinstance(given.get(name), int)), root)
        frame = frame.f_back
    return root


_CALLED_AT = "torch/distributed/distributed_c10d.py"
_ROOTED = ("broadcast", "reduce", "gather", "scatter")
_ROOTS = ("src", "dst", "group_src", "group_dst")


def collectives() -> list[dict[str, Any]]:
    """The last collectives that this process has started, as PyTorch's flight recorder keeps them, oldest first."""
    for name in _DUMPS:
        dump = getattr(torch._C._distributed_c10d, name, None)
        entries = pickle.loads(dump()).get("entries", []) if dump is not None else []
        if entries:
            members = _members()
            return [_collective(entry, members) for entry in entries[-_MOST_ENTRIES:]]
    return list(CALLED)


def records_all() -> bool:
    """PyTorch records the collectives of all backends."""
    return hasattr(torch._C._distributed_c10d, _DUMPS[0])


def keep_collectives() -> None:
    """Have PyTorch's flight recorder keep something where it would not: before torch 2.11 it had to be asked."""
    if not records_all() or any(name in os.environ for name in _KEEPS):
        return
    # Who is asked by the name of another version says so on standard error, or does not hear it.
    os.environ[_KEEPS[tuple(int(number) for number in torch.__version__.split(".")[:2]) < _RENAMED]] = str(_KEPT)


def _members() -> dict[str, list[int]]:
    """The ranks of each group of which this one is a member, by its name; no promise of PyTorch."""
    names = getattr(getattr(distributed_c10d, "_world", None), "pg_names", {})
    return {name: distributed_c10d.get_process_group_ranks(group) for group, name in names.items()}


def _collective(entry: dict[str, Any], members: dict[str, list[int]]) -> dict[str, Any]:
    calls = [(each["filename"], each["line"], each["name"]) for each in entry.get("frames") or ()]
    own = next((call for call in calls if is_own(call[0])), None)
    inner = calls[: calls.index(own)] if own else calls
    done = bool(entry.get("retired")) or entry.get("state") == "completed"
    group = (entry.get("process_group") or [""])[0]
    dtype = (entry.get("input_dtypes") or [""])[0]
    return {
        "name": str(entry.get("profiling_name", "")).rpartition(":")[2],
        "number": entry.get("collective_seq_id") or 0,
        "group": group,
        "members": [] if done else members.get(group, []),
        "elements": sum(math.prod(sizes) for sizes in entry.get("input_sizes") or ()),
        "of_wrapper": any(name.endswith(_OF_WRAPPERS) for name, _, _ in inner),
        "done": done,
        "began": (entry.get("time_created_ns") or 0) / 1e9,
        "place": own[:2] if own else None,
        "function": own[2] if own else "",
        "dtype": str(getattr(torch, dtype.lower(), dtype)).removeprefix("torch."),
    }
