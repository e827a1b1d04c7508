"""Where ranks of our own meet."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"
_PATIENCE = 2.0


def free_port() -> int:
    """A TCP port that nobody listens on now.

    Somebody else may take it before it is used: who starts ranks on it should be ready to try once more.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
    return port


def loopback_trouble() -> str:
    """Why processes of this node cannot reach each other over its loopback address; empty where they can."""
    try:
        with socket.create_server((LOOPBACK, 0)) as server:
            server.settimeout(_PATIENCE)
            with socket.create_connection(server.getsockname(), timeout=_PATIENCE):
                server.accept()[0].close()
    except OSError as error:
        return error.strerror or str(error)
    return ""
