"""Which object of a framework has what under its care, and with which settings it was made."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.value import Value, Values
from gpudoctor.lint.events.knowledge import Prepare, UseManaged
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Program

ACCELERATE, DEEPSPEED, LIGHTNING = "accelerate", "deepspeed", "lightning"
SCALES_NOTHING = ("no", "bf16", "fp8")


def taken_in_charge(program: Program, managed: ManagedObject) -> UseManaged | None:
    """Where this object was made, with its settings."""
    return next((each for each in program.events(UseManaged) if each.made == managed), None)


def prepares_unseen(program: Program) -> bool:
    """Something is passed to a framework that could not be followed: it may be any object."""
    return any(each.opaque or (each.given.is_open and not each.given.config) for each in handed_over(program))


def is_prepared(program: Program, value: Value) -> bool:
    """The object, or the one under its wrappers, is passed to a framework on some path."""
    core = value.core
    return any(value in (each.given, each.made) or each.given.core == core for each in handed_over(program))


def handed_over(program: Program) -> Iterator[Prepare]:
    """What the program itself hands over: a `Trainer` takes what it needs when it trains."""
    return (each for each in program.events(Prepare) if not each.by_itself)


def prepared_for(program: Program, backward: Backward) -> Prepare | None:
    """Where a model was prepared through which these gradients flow, or past whose wrapper: the model itself was
    called, or the method of one."""
    cores = {call.module.core for call in program.calls_in_graph(backward)}
    made = (each for each in handed_over(program) if each.order < backward.order and each.given.core in cores)
    return next((each for each in made if isinstance(each.made, Wrapper)), None)


def constant(values: Values | None) -> object:
    """The constant that a setting surely is; None where it was left out or is not known."""
    return values.single.in_python if values is not None and values.single is not None else None


def usual(program: Program, values: Values | None) -> object:
    """The constant that a setting is where the user leaves all options out; None where that is not known."""
    return constant(values.map(program.left_out)) if values is not None else None


def leaves_gradients_alone(charge: UseManaged) -> bool:
    """Accelerate is told a precision that needs no scale, and to accumulate nothing. Left out, `accelerate launch` says
    both."""
    if charge.given.open_ended or charge.otherwise:
        return False
    steps = charge.setting("gradient_accumulation_steps")
    return charge.told("mixed_precision") in SCALES_NOTHING and (
        steps is None or charge.told("gradient_accumulation_steps") == 1
    )


def accumulation_of(charge: UseManaged) -> Value | None:
    """How many batches a framework was told to make a step of; None where that is not known, or was left out."""
    plugin = charge.setting("gradient_accumulation_plugin.num_steps")
    if charge.given.open_ended or (plugin is None and "accumulating" in charge.otherwise):
        return None
    steps = charge.setting("gradient_accumulation_steps") if plugin is None else plugin
    return steps.single if steps is not None else None


def in_numbers(number: Value) -> str:
    """A number, for a message."""
    return str(number.in_python) if number.is_constant else name_of(number, "this number")
