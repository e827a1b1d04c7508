"""Run a command shut off from the rest: no network, and what it writes is gone with it.

Linux's namespaces do that without rights of an administrator, where the machine lets them. All file systems are read
only; the home folder, the working directory and the one for temporary files look writable, and take no change.

The command sees no processes but its own, and all of these end with it, where the machine allows that: it does not
where parts of /proc are hidden, as in many containers. There, other processes of the user are still in its reach, and
what it leaves behind is for the caller to end.

    python -m gpudoctor.ranks.sandbox FOLDER COMMAND ...

In FOLDER, which must be empty, the command may write to `out`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from gpudoctor.ranks.process_tree import die_with_parent

NO_SANDBOX = 125
"""The exit code where this machine cannot shut a process off."""
_NEW = 0x10000000 | 0x00020000 | 0x40000000 | 0x08000000
"""Users, mounts, network, and memory shared by System V."""
_NEW_MOUNTS, _NEW_PROCESSES = 0x00020000, 0x20000000
_NO_DEVICES = 0x2 | 0x4 | 0x8
"""Nor programs, nor rights of their owners."""
_RECURSIVE, _PRIVATE, _BIND = 0x4000, 0x40000, 0x1000
_MOUNT_SETATTR, _HERE, _AT_RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1
_SIOCSIFFLAGS, _UP = 0x8914, 1
_NO_NEW_PRIVILEGES = 38
_NOBODY = 65534
_NOT_FOUND, _SIGNALLED = 127, 128
_libc = ctypes.CDLL(None, use_errno=True)


def shut_off(folder: Path) -> None:
    """Shut this process off.

    Raises:
        OSError: The machine does not let it.
    """
    user, group = os.getuid(), os.getgid()
    writable = _outermost((Path.home(), Path.cwd(), Path(tempfile.gettempdir()), Path("/dev/shm")))
    _checked(_libc.unshare(_NEW), "unshare")
    # Who is an administrator outside is none inside, so that nothing of this can be undone.
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user or _NOBODY} {user} 1")
    _write("/proc/self/gid_map", f"{group or _NOBODY} {group} 1")
    _connect_to_itself()
    _mount("none", "/", flags=_RECURSIVE | _PRIVATE)
    out, layers = folder / "out", folder / "layers"
    out.mkdir()
    layers.mkdir()
    outside = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
    _set_read_only("/", True)
    _mount("tmpfs", str(layers), "tmpfs")
    # Last the one that hides the layers.
    for number, each in enumerate(sorted(writable, key=lambda each: each in folder.resolve().parents)):
        upper, work = layers / f"{number}-upper", layers / f"{number}-work"
        upper.mkdir()
        work.mkdir()
        _mount("overlay", str(each), "overlay", options=f"lowerdir={each},upperdir={upper},workdir={work}")
    _mount(f"/proc/self/fd/{outside}", str(out), flags=_BIND)
    _set_read_only(str(out), False)
    os.close(outside)
    # This working directory is that under the layer.
    os.chdir(os.getcwd())
    _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0), "prctl")


def _outermost(folders: Iterable[Path]) -> list[Path]:
    """Folders that are in none of the others."""
    every = {each.resolve() for each in folders if each.is_dir() and each.resolve() != Path("/")}
    return sorted(each for each in every if not every & set(each.parents))


def _connect_to_itself() -> None:
    """Ranks meet at 127.0.0.1, which a new network does not have up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP))


def _mount(source: str, target: str, kind: str = "", *, flags: int = 0, options: str = "") -> None:
    words = (source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None)
    _checked(_libc.mount(*words), f"mount {target}")


def _set_read_only(target: str, wanted: bool) -> None:
    attributes = struct.pack("4Q", _READ_ONLY if wanted else 0, 0 if wanted else _READ_ONLY, 0, 0)
    flags = _AT_RECURSIVE if wanted else 0
    found = _libc.syscall(_MOUNT_SETATTR, _HERE, target.encode(), flags, attributes, ctypes.c_size_t(len(attributes)))
    _checked(found, f"mount_setattr {target}")


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _checked(result: int, call: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), call)


def _may_have_own_processes() -> bool:
    """Whether the machine lets this process have children in a world of their own: tried with one that ends at once."""

    def attempt() -> int:
        _checked(_libc.unshare(_NEW_PROCESSES | _NEW_MOUNTS), "unshare")
        return _ended(_forked(_show_own_processes))

    return _ended(_forked(attempt)) == 0


def _show_own_processes() -> int:
    _mount("proc", "/proc", "proc", flags=_NO_DEVICES)
    return 0


def _run_alone(command: list[str]) -> int:
    """Run the command in a world of its own processes; its exit code, when all of them have ended."""

    def first() -> int:
        die_with_parent()
        _show_own_processes()
        # The first process of such a world takes no signals by default, and inherits the orphans; when it ends, the
        # kernel ends all others.
        main_one = _forked(lambda: _become(command))
        while True:
            process, status = os.wait()
            if process == main_one:
                return _exit_code(status)

    _checked(_libc.unshare(_NEW_PROCESSES), "unshare")
    return _ended(_forked(first))


def _become(command: list[str]) -> int:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return _NOT_FOUND


def _forked(work: Callable[[], int]) -> int:
    """The number of a child that does the work and ends with its result, or with 1 where the system refuses it."""
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(OSError):
            code = work()
        os._exit(code)
    return child


def _ended(child: int) -> int:
    return _exit_code(os.waitpid(child, 0)[1])


def _exit_code(status: int) -> int:
    """As a shell tells it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else _SIGNALLED - code


def main(arguments: list[str]) -> None:
    """Run the command, and end as it does."""
    folder, *command = arguments
    try:
        shut_off(Path(folder))
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}\n")
        sys.exit(NO_SANDBOX)
    sys.exit(_run_alone(command) if _may_have_own_processes() else _become(command))


if __name__ == "__main__":
    main(sys.argv[1:])
