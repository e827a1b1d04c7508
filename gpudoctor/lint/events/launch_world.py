"""The ways in which a program is launched."""

from __future__ import annotations

import enum


class LaunchWorld(enum.Enum):
    """How the program is launched."""

    TORCHRUN = "torchrun"
    SPAWN = "spawn"
    SINGLE = "single"

    @property
    def several_processes(self) -> bool:
        return self is not LaunchWorld.SINGLE
