"""The record of one text."""

from __future__ import annotations

import enum

from gpudoctor.record import dataclass


class FailureRole(enum.Enum):
    """What an error says of the order in which ranks failed."""

    OWN = "own"
    """This process did, or met, something wrong itself."""
    PEER = "peer"
    """Another process had gone before."""
    WAIT = "wait"
    """Others did not come in time, or this process did not go on."""
    STOPPED = "stopped"
    """The launcher, the scheduler or a person ended it."""


@dataclass(frozen=True)
class ErrorText:
    """One text. `code` is the rule of the mistake behind it, where there is one and no other cause; `likely` names
    rules that are only the usual causes. `beyond`: it is meant only where the number `more` is beyond so many times
    the number `than`, groups of the pattern. `inside` is searched in the calls that raised it,
    as `file.py:function`. `tells_more`: of a chain of errors it says more than those that led
    to it."""

    pattern: str
    means: str
    do: str = ""
    role: FailureRole = FailureRole.OWN
    code: str = ""
    likely: tuple[str, ...] = ()
    library: str = "torch"
    since: str = ""
    until: str = ""
    beyond: int = 0
    inside: str = ""
    tells_more: bool = False
