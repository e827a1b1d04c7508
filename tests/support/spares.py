"""Processes forked ahead, each of which becomes one interpreter that multiprocessing's spawn method asks for.

Spawn starts `python -c "from multiprocessing.spawn import spawn_main; ..."` and hands over descriptors. A spare is a
real child of the launcher in the state of an interpreter that has just imported torch; it is sent the command and the
descriptors, and runs that very command. Only the import is saved, which takes two seconds of processor time.
"""

import array
import atexit
import json
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import util

Run = Callable[[int, list[str]], int]
"""Called in a spare that is used, with its number and the command; it returns the exit code."""

_MESSAGE_LIMIT = 1 << 17


def prepare(count: int, run: Run) -> None:
    """Fork `count` spares and let spawn use them up; `run` is called in those."""
    waiting = []
    for number in range(count):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            ours.close()
            for _, other in waiting:
                other.close()
            _wait_for_command(theirs, number, run)
        theirs.close()
        waiting.append((pid, ours))
    start_fresh = util.spawnv_passfds

    def start(path: str, args: Sequence[str], passfds: Sequence[int]) -> int:
        # The resource tracker is started by the same function and is no process of the program.
        if "--multiprocessing-fork" not in args or not waiting:
            return start_fresh(path, args, passfds)
        pid, control = waiting.pop(0)
        texts = [arg if isinstance(arg, str) else os.fsdecode(arg) for arg in args]
        command = {
            "args": texts,
            "numbers": list(passfds),
            "environment": dict(os.environ),
            "folder": os.getcwd(),
        }
        control.sendmsg(
            [json.dumps(command).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passfds))]
        )
        control.close()
        return pid

    util.spawnv_passfds = start


def _wait_for_command(control: socket.socket, number: int, run: Run) -> None:
    message, rights, _, _ = control.recvmsg(_MESSAGE_LIMIT, socket.CMSG_SPACE(64 * 4))
    control.close()
    if not message:
        os._exit(0)
    command = json.loads(message)
    received = array.array("i")
    for _, _, data in rights:
        received.frombytes(data[: len(data) - len(data) % received.itemsize])
    _place(list(received), command["numbers"])
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    status = 1
    try:
        status = run(number, command["args"])
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def code_and_words(args: Sequence[str]) -> tuple[str, list[str]]:
    """What `python -c CODE WORDS` is given."""
    place = args.index("-c")
    return args[place + 1], list(args[place + 2 :])


def execute(args: Sequence[str]) -> int:
    """Do what `python -c CODE --multiprocessing-fork` does."""
    code, words = code_and_words(args)
    sys.argv = ["-c", *words]
    status = 0
    try:
        exec(code, {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _place(received: list[int], numbers: list[int]) -> None:
    """Move the received descriptors to the numbers that the command speaks of."""
    clear = max([*received, *numbers], default=0) + 1
    parked = []
    for offset, descriptor in enumerate(received):
        os.dup2(descriptor, clear + offset)
        os.close(descriptor)
        parked.append(clear + offset)
    for descriptor, number in zip(parked, numbers, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
