"""Network interfaces and RDMA ports: what NCCL and gloo could talk over."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from gpudoctor.probe.inventory.facts import Interface, Network, RdmaPort
from gpudoctor.probe.inventory.field import Absence, Field, absent, known
from gpudoctor.probe.inventory.system_files import text_in

NET = Path("/sys/class/net")
RDMA = Path("/sys/class/infiniband")
_SIOCGIFADDR = 0x8915
_KINDS = {"772": "loopback", "32": "infiniband"}
_IS_UP = 0x1


def read() -> Network:
    """The interfaces of this machine."""
    return Network(tuple(_interfaces()), tuple(_rdma()), _host_address())


def _interfaces() -> Iterator[Interface]:
    for folder in _below(NET):
        flags = text_in(folder / "flags")
        yield Interface(
            name=folder.name,
            up=bool(int(flags, 16) & _IS_UP) if flags.startswith("0x") else False,
            kind=_kind(folder),
            addresses=_addresses(folder.name),
            speed=_speed(folder),
        )


def _kind(folder: Path) -> str:
    known_kind = _KINDS.get(text_in(folder / "type"))
    if known_kind:
        return known_kind
    # Bridges, tunnels and the ends of containers have no device behind them.
    return "ethernet" if (folder / "device").exists() else "virtual"


def _speed(folder: Path) -> Field[int]:
    text = text_in(folder / "speed")
    return known(int(text)) if text.isdigit() and int(text) else absent("the interface does not tell it")


def _addresses(name: str) -> tuple[str, ...]:
    """Its IPv4 address; the kernel hands out one for each name."""
    try:
        import fcntl
    except ImportError:
        return ()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        try:
            answer = fcntl.ioctl(asker.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return ()
    return (socket.inet_ntoa(answer[20:24]),)


def _rdma() -> Iterator[RdmaPort]:
    for device in _below(RDMA):
        for port in _below(device / "ports"):
            yield RdmaPort(
                device=device.name,
                port=int(port.name) if port.name.isdigit() else 0,
                # "4: ACTIVE"
                state=text_in(port / "state").rpartition(":")[2].strip(),
                rate=text_in(port / "rate"),
                layer=text_in(port / "link_layer"),
            )


def _host_address() -> Field[str]:
    name = socket.gethostname()
    try:
        return known(socket.gethostbyname(name))
    except OSError as error:
        return absent(f"the name {name!r} does not resolve ({error.strerror or error})", Absence.FAILED)


def _below(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
