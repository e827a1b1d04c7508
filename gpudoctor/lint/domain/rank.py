"""Ranks, the sizes of worlds, and counts of devices: numbers that the launcher decides."""

from __future__ import annotations

import enum
from typing import TypeAlias

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Const, Text, Unknown, Value, Values, of_kinds
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.record import dataclass, field, replace


class RankKind(enum.Enum):
    """Over what a rank counts."""

    GLOBAL = "global rank"
    LOCAL = "local rank"
    NODE = "node rank"


class RankSource(enum.Enum):
    """Where a program got its rank from."""

    ENVIRONMENT = "environment"
    PROCESS_GROUP = "process group"
    SPAWN_INDEX = "mp.spawn"
    ARGUMENT = "argument"
    SLURM = "SLURM"
    MPI = "MPI"
    FRAMEWORK = "framework"


@dataclass(frozen=True)
class Rank(Value):
    """The number of this process. `as_text` marks one that is still the string of an environment variable."""

    is_object = True
    is_launched = True

    kind: RankKind
    # Not compared: the rank of the environment and that of the group are the same number.
    source: RankSource = field(compare=False)
    as_text: bool = False
    place: Location | None = field(default=None, compare=False)
    formula: tuple[Value, Value] | None = field(default=None, compare=False)
    """What was multiplied to reach it, as `node` and `gpus` in `node * gpus + local_rank`."""
    left_out: Value | None = field(default=None, compare=False)
    """What an option for it is where nobody passes it; None where that is not known."""

    @property
    def divergence(self) -> Divergence:
        return Divergence.RANK

    def counts(self, *kinds: enum.Enum) -> bool:
        return self.kind in kinds

    def as_number(self) -> Rank:
        return replace(self, as_text=False)

    def __repr__(self) -> str:
        return f"Rank({self.kind.value}{', text' if self.as_text else ''})"


class SizeKind(enum.Enum):
    """What a size counts."""

    WORLD = "world size"
    LOCAL_WORLD = "local world size"
    DEVICES = "device count"
    NODES = "node count"


@dataclass(frozen=True)
class Size(Value):
    """A number of processes, devices or nodes: the same on all ranks, more than one in a multi-process world."""

    is_object = True
    is_launched = True
    is_setting = True
    # A world or a number of devices is never 0.
    truth = True

    kind: SizeKind
    as_text: bool = False
    place: Location | None = field(default=None, compare=False)
    product: bool = field(default=False, compare=False)
    """It was multiplied from two counts: `nodes * gpus`."""
    of_part: bool = False
    """It counts a group that may be a part of the world."""

    def counts(self, *kinds: enum.Enum) -> bool:
        return self.kind in kinds

    def as_number(self) -> Size:
        return replace(self, as_text=False)

    def __repr__(self) -> str:
        return f"Size({self.kind.value}{', text' if self.as_text else ''})"


Numbers: TypeAlias = ValueSet[Const | Rank | Size | Unknown]
"""What is given for a rank, or for how many there are of something."""


SettingValues: TypeAlias = ValueSet[Const | Text | Rank | Size | Unknown]
"""What is written to a variable of the environment, or is the default of an option."""


def as_setting(values: Values) -> SettingValues:
    """What is given for a text or a number; something else is as good as unknown."""
    return of_kinds(values, Const, Text, Rank, Size, Unknown) or values  # type: ignore[return-value]


def as_numbers(values: Values | None) -> Numbers | None:
    """What is given for a number; something else is as good as unknown."""
    return of_kinds(values, Const, Rank, Size, Unknown)
