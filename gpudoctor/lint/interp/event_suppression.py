"""Looks that leave no trace in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.lint.interp.machine import Machine


class EventSuppression:
    """Keeps a machine quiet for a while; written out, because it is done so often."""

    __slots__ = ("_machine",)

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __enter__(self) -> None:
        self._machine.muted += 1

    def __exit__(self, *error: object) -> None:
        self._machine.muted -= 1
