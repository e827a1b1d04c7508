"""What the options of a group of settings say, among the plain dictionaries, lists and scalars of the others."""

from __future__ import annotations

from gpudoctor.record import dataclass


class LeftOpen:
    """Nobody has written it: an option leaves it out, or it is computed."""

    def __repr__(self) -> str:
        return "OPEN"


OPEN = LeftOpen()


@dataclass(frozen=True)
class GroupOptions:
    """What each option of a group says, by its name, the usual one first."""

    group: str
    said: tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class SaidAtStart:
    """What the command line of a launch says of a setting: there it is nothing else."""

    value: object


def variable_in(written: object) -> str:
    """The variable of the environment that a setting is taken from, as in `${oc.env:LOCAL_RANK}`; empty where none
    is."""
    if not isinstance(written, str) or not written.startswith(("${oc.env:", "${env:")):
        return ""
    name = written.removesuffix("}").partition(":")[2].partition(",")[0]
    return name if name.isidentifier() else ""
