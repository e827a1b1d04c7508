"""What came of a program that `gpudoctor lint --try` has run: the plain records that reports are made from."""

from __future__ import annotations

from gpudoctor.record import dataclass


@dataclass(frozen=True)
class TriedSuspicion:
    """What lint suspects, and its `state` after the run: `confirmed`, `cleared` or `not reached`."""

    code: str
    path: str
    line: int
    state: str


@dataclass(frozen=True)
class SeenMistake:
    """What the run has found and lint does not suspect."""

    code: str
    path: str
    line: int
    message: str


@dataclass(frozen=True)
class TriedProgram:
    """One program. `ran` is false where it was not started or not watched to an end, for the reason in `because`.

    `gpus` are virtual ones; `steps` counts those of the rank that made most; `ended` says how it ended, and is empty
    where that was as a healthy one does.
    """

    path: str
    world: str
    ran: bool
    because: str
    gpus: int
    steps: int
    ended: str
    suspicions: tuple[TriedSuspicion, ...]
    seen: tuple[SeenMistake, ...]
