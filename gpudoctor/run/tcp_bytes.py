"""What processes have sent and received: the kernel counts that for each connection, and for no process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct

_COUNTS = struct.Struct("=QQ")
_AT = 120
"""Of `tcpi_bytes_acked` in the kernel's `struct tcp_info`, which `tcpi_bytes_received` follows; since Linux 4.1."""

_GET_FILE = 438
"""The number of `pidfd_getfd`, since Linux 5.6 and on all processors."""


def bytes_over_tcp() -> int:
    """Bytes that have come and gone over the TCP connections that are open; 0 where that is not to be seen."""
    moved = 0
    # Python gives a default of the program's to each socket that it makes, and by that to the connection itself.
    if socket.getdefaulttimeout() is not None:
        return 0
    with contextlib.suppress(OSError, AttributeError):
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError, struct.error):
                if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                    moved += _over(int(name))
    return moved


def received_by(pid: int) -> dict[str, int]:
    """Bytes that have come over each open TCP connection of another process, by the name that the kernel gives it;
    empty where that may not be seen."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, AttributeError):
        process = os.pidfd_open(pid)
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError, struct.error):
                    connection = os.readlink(f"/proc/{pid}/fd/{name}")
                    if connection.startswith("socket:"):
                        found[connection] = _received(process, int(name))
        finally:
            os.close(process)
    return found


def _received(process: int, number: int) -> int:
    # Python has no function for it.
    copy = ctypes.CDLL(None).syscall(_GET_FILE, process, number, 0)
    if copy < 0:
        raise OSError
    with socket.socket(fileno=copy) as connection:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _AT + _COUNTS.size)
    return int(_COUNTS.unpack_from(told, _AT)[1])


def _over(number: int) -> int:
    with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as connection:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _AT + _COUNTS.size)
    return sum(_COUNTS.unpack_from(told, _AT))
