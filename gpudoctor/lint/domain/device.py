"""Devices: where tensors and modules live, and where the index came from."""

from __future__ import annotations

from typing import TypeAlias

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values, int_of, text_of
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.record import dataclass, field


@dataclass(frozen=True)
class Device(Value):
    """`type` is `cuda`, `cpu` or another backend; `index` None means the current device of the process.

    `place` is where the program named the device.
    """

    is_object = True
    is_setting = True

    type: str
    index: Value | None = None
    place: Location | None = field(default=None, compare=False)

    @property
    def divergence(self) -> Divergence:
        return self.index.divergence if self.index is not None else Divergence.NONE

    @property
    def in_text(self) -> tuple[Value, ...]:
        return (Const(self.type),) if self.index is None else (Const(f"{self.type}:"), self.index)

    @property
    def is_cpu(self) -> bool:
        return self.type == "cpu"

    @property
    def is_cuda(self) -> bool:
        return self.type == "cuda"

    @property
    def is_accelerator(self) -> bool:
        return self.type not in ("cpu", "meta")

    @property
    def literal_index(self) -> int | None:
        return int_of(self.index)

    @property
    def chosen_by(self) -> str:
        """What names its number, where the program does not know it: `args.gpu`; empty where it does."""
        return self.index.label if isinstance(self.index, Unknown) else ""

    def differs_from(self, other: Value) -> bool:
        # `device != torch.device("cpu")` asks for the kind of it: which GPU a rank has makes no difference.
        kind = other.type if isinstance(other, Device) else text_of(other)
        return kind is not None and kind.partition(":")[0] != self.type

    def __repr__(self) -> str:
        return f"Device({self.type}{'' if self.index is None else f':{self.index!r}'})"


CPU = Device("cpu")

Devices: TypeAlias = ValueSet[Device | Unknown]
"""The device where something may lie, on each path."""


def on_cpu(values: Values | None) -> bool:
    """Surely on the CPU, whatever the path."""
    return values is not None and values.all(lambda value: value.is_cpu)


def on_gpu(values: Values | None) -> bool:
    """Surely on an accelerator, whatever the path."""
    return values is not None and values.all(lambda value: value.is_accelerator)
