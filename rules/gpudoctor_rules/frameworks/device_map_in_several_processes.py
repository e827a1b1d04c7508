"""A model is loaded by a `device_map` that knows of one process only, and trained in several.

## What goes wrong

`device_map="auto"` spreads a model over all GPUs that a process sees. In several processes, one for each GPU, each
spreads its own over the GPUs of all others, and Accelerate, also inside the Trainer, refuses to train it: `ValueError:
You can't train a model that has been loaded with device_map='auto' in any distributed mode`. `device_map={"": 0}` puts
the model of every process on the first GPU; one in 4 or 8 bits cannot be moved from there, which ends with `ValueError:
You can't train a model that has been loaded in 8-bit or 4-bit precision on a different device than the one you're
training on`.

## Fix

Leave `device_map` out, or for a model in 4 or 8 bits name the GPU of the process: `device_map={"":
PartialState().local_process_index}`. Unsafe: a model that fits on no single GPU needs FSDP or DeepSpeed instead.

## Silent when

Nothing says that several processes run the program: started by `python`, a model that is spread over several GPUs is
trained by one process, layer after layer, which is slow and right; the model is not trained.

## Sources

https://huggingface.co/docs/accelerate/concept_guides/big_model_inference, huggingface/transformers#31557,
huggingface/accelerate#1840.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import Escape, Prepare, UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import SpreadByMap
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.questions.names import in_code
from gpudoctor.lint.repair.repair import Imported, RemoveArgument, Repair, SetArgument
from gpudoctor.rule import CrashText, Findings, Program, Rule
from gpudoctor_rules.frameworks._charge import ACCELERATE

REFUSED = "You can't train a model that has been loaded with `device_map='auto'`"
OTHER_DEVICE = "in 8-bit or 4-bit precision on a different device than the one you're training on"


class DeviceMapInSeveralProcesses(Rule):
    code = "GPU909"
    severity = Severity.ERROR
    errors = (
        "ValueError: You can't train a model that has been loaded with device_map='auto' in any distributed mode.",
        "ValueError: You can't train a model that has been loaded in 8-bit or 4-bit precision on a different device "
        "than the one you're training on",
    )
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "ranks.accelerators")
    of_ranks = True
    needs = (SpreadByMap,)
    crash = CrashText(
        (REFUSED, OTHER_DEVICE),
        remedy="Leave `device_map` out, or name the GPU of the process: "
        '`device_map={"": PartialState().local_process_index}`.',
    )

    def in_code(self, program: Program) -> Findings:
        # Tests of a library have one process.
        if program.only_tests:
            return
        if not program.launched_in_several and not program.documented.launchers_naming_it():
            return
        # What only evaluates is started as one process, as a rule: there the map is what is meant.
        if not program.documented.launchers_naming_it() and not _trains(program):
            return
        for event in program.events(SpreadByMap):
            # A model that is not quantized goes where it is trained.
            trained = _trained_at(program, event) if event.over_all or event.quantized else None
            if trained is None:
                continue
            name = in_code(event.model, "model")
            yield self.found(
                event.location,
                f"`{name}` is {_where(event)}, and several processes train it: each ends with `ValueError: You can't "
                f"train a model that has been loaded {_refused(event)}`.",
                remedy=_remedy(event),
                because=[("it is passed to the training here", trained.location)],
                repair=_repair(event),
            )


def _trained_at(program: Program, event: SpreadByMap) -> Event | None:
    """Where what trains in several processes is given the model."""
    for each in program.events(Prepare, Wrap, Escape):
        if each.order < event.order or each.condition.excludes(event.condition):
            continue
        given: tuple[Value, ...] = ()
        # A Trainer prepares its model by Accelerate.
        if isinstance(each, Prepare) and each.managed.framework in (ACCELERATE, "transformers"):
            given = (each.given,)
        elif isinstance(each, Wrap) and each.is_ddp:
            given = (each.inner,)
        elif isinstance(each, Escape) and _is_trainer(program, each):
            given = each.values
        if any(event.model in program.within(value) for value in (each.core for each in given) if value.is_model):
            return each
    return None


def _trains(program: Program) -> bool:
    return program.has(Backward, OptimizerStep) or any(_is_trainer(program, each) for each in program.events(Escape))


def _is_trainer(program: Program, escape: Escape) -> bool:
    charge = (each for each in program.at(escape.location) if isinstance(each, UseManaged))
    return any(each.framework == "transformers" and each.trains for each in charge)


def _where(event: SpreadByMap) -> str:
    return "spread over all GPUs by its `device_map`" if event.over_all else "put on the first GPU by its `device_map`"


def _refused(event: SpreadByMap) -> str:
    if event.over_all:
        return "with device_map='auto' in any distributed mode"
    return "in 8-bit or 4-bit precision on a different device than the one you're training on"


def _remedy(event: SpreadByMap) -> str:
    if event.quantized:
        return 'Put it on the GPU of the process: `device_map={"": PartialState().local_process_index}`.'
    return "Leave `device_map` out; what does not fit on one GPU, FSDP or DeepSpeed can shard."


def _repair(event: SpreadByMap) -> Repair:
    if not event.quantized:
        return Repair("Leave `device_map` out", (RemoveArgument(event.location, "device_map"),))
    own = ('{"": ', Imported("accelerate.PartialState"), "().local_process_index}")
    return Repair("Put it on the GPU of the process", (SetArgument(event.location, "device_map", own),))
