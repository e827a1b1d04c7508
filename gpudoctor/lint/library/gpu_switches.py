"""Options such as `--no-cuda`: where several GPUs train, the GPU is taken that they keep by default."""

from __future__ import annotations

from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.symbols import IsTrue
from gpudoctor.lint.domain.value import Const, Value, Values
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.interface.contents import default_of
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import LibraryContext


def take_gpu(do: LibraryContext, devices: Values | None) -> None:
    """A GPU by default, and the CPU where the user says so: from here on nobody has said so."""
    if devices is None or len(devices.bindings) < 2:
        return
    gpus = [each for each in devices.bindings if _is_of_type(each.value, "cuda")]
    others = [each for each in devices.bindings if _is_of_type(each.value, "cpu")]
    if len(gpus) + len(others) != len(devices.bindings):
        return
    for gpu in gpus:
        for literal in gpu.condition.literals:
            if all(literal.negated() in other.condition.literals for other in others) and holds_by_default(do, literal):
                do.launch.assume(literal)


def _is_of_type(value: Value, kind: str) -> bool:
    return isinstance(value, Device) and value.type == kind


def holds_by_default(do: LibraryContext, literal: Literal) -> bool:
    """Options alone decide it, and it holds where none of them is given."""
    return literal.atom.switch and _by_default(do, literal) is True


@told(HOOKS.is_off)
def _is_off(do: LibraryContext, literal: Literal) -> bool:
    """Options alone decide it, and it does not hold where none of them is given."""
    return literal.atom.switch and _by_default(do, literal) is False


def _by_default(do: LibraryContext, literal: Literal) -> bool | None:
    atom = literal.atom
    answers = [_by_default(do, part) for part in atom.every or atom.none]
    if answers:
        decisive = bool(atom.none)
        known = decisive if decisive in answers else (None if None in answers else not decisive)
        return None if known is None else known is literal.holds
    default = default_of(do, atom.key.value) if isinstance(atom.key, IsTrue) else None
    return bool(default.value) is literal.holds if isinstance(default, Const) else None
