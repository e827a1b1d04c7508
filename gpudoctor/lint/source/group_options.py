"""What the options of a group of settings say, among the plain dictionaries, lists and scalars of the others."""

from __future__ import annotations

from gpudoctor.record import dataclass


class LeftOpen:
    """Nobody has written it: an option leaves it out, it is computed, or the environment says it."""

    def __repr__(self) -> str:
        return "OPEN"


OPEN = LeftOpen()


@dataclass(frozen=True)
class GroupOptions:
    """What each option of a group says, by its name, the usual one first."""

    group: str
    said: tuple[tuple[str, object], ...]
