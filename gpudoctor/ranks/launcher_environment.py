"""Where ranks of our own meet, and the environment that torchrun gives to a rank, for those started without it."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"
_PATIENCE = 2.0


def free_port(host: str = LOOPBACK) -> int:
    """A TCP port that nobody listens on now.

    Somebody else may take it before it is used: who starts ranks on it should be ready to try once more.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
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


def rank_environment(
    rank: int, world_size: int, port: int, *, ranks_per_node: int | None = None, host: str = LOOPBACK
) -> dict[str, str]:
    """The variables torchrun sets for `rank` of `world_size` ranks, `ranks_per_node` of which share a machine."""
    per_node = world_size if ranks_per_node is None else ranks_per_node
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank % per_node),
        "LOCAL_WORLD_SIZE": str(min(per_node, world_size)),
        "GROUP_RANK": str(rank // per_node),
        "GROUP_WORLD_SIZE": str(-(-world_size // per_node)),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
    }
