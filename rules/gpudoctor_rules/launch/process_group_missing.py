"""Something needs the process group, and the program never makes one.

## What goes wrong

The ranks of a training job (its processes, one for each GPU) find each other in a *process group*, which
`init_process_group` makes. Collectives such as `barrier` and `all_reduce`, `DistributedDataParallel`, a
`DistributedSampler` that is not told its rank, `get_rank` and `get_world_size` need it, and end the program where there
is none:
`ValueError: Default process group has not been initialized, please make sure to call init_process_group.` Some programs
make the group only when they are started on several GPUs and forget the switch at one collective: they run with
`torchrun` and crash with plain `python`.

## Fix

Under `torchrun`, call `torch.distributed.init_process_group("nccl")` at the start, before the first thing that needs
it. A program that also runs in a single process tests `torch.distributed.is_initialized()` first. Where the group is
made depends on how the program is launched, so a fix is written only for a training that knows of one process and is
linted with `--launch torchrun`: it makes the group where the work begins. Unsafe, because the program then needs a
launcher. `gpudoctor explain scaling` shows what else such a program needs.

## Silent when

A process group is made anywhere in the program, by whichever library; a framework starts the processes; the sampler is
given both `num_replicas` and `rank`; a part of the program could not be read that might make the group, as code that is
told the world size; the place is reached only under a switch that cannot be followed, or under a test of a helper in
another file, which programs for one process may call as well.

## Sources

https://docs.pytorch.org/docs/stable/distributed.html#initialization; the text is that of torch 2.13, run here; older
versions raise the same as a RuntimeError.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import MakeSampler
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import Caught, GroupAsked, InitGroup
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.repair.repair import AtEnd, Before, Code, Imported, Repair
from gpudoctor.rule import CrashText, Findings, Program, Rule
from gpudoctor_rules._error_texts import NO_GROUP


class ProcessGroupMissing(Rule):
    code = "GPU401"
    severity = Severity.ERROR
    errors = NO_GROUP
    fix_safety = Safety.UNSAFE
    shows_when = ("ended_well",)
    needs = (Caught, Collective, GroupAsked, InitGroup, MakeSampler, Wrap)
    crash = CrashText(
        "Default process group has not been initialized",
        remedy="Call `torch.distributed.init_process_group` before this, at the start of each process.",
        when="not makes_group",
    )

    def in_code(self, program: Program) -> Findings:
        if program.lacks_group is not None:
            yield self._started_several_times(program.lacks_group)
            return
        # A group may be made anywhere: the claim needs the whole program.
        if not program.absence() or _makes_group(program):
            return
        events = program.events(Collective, GroupAsked, MakeSampler, Wrap)
        # The first one ends the program.
        first = next((event for event in events if _without_group(event) and _certain(program, event)), None)
        # A module that is not at hand may be the one that makes it, whatever it is called.
        if first is None or program.strangers_asked_before(first):
            return
        where = "" if program.world.several_processes else " when it is started as a single process"
        yield self.found(
            at=first.location,
            message=f"{_what(first)} needs a process group, and this program makes none{where}: it ends with `Default "
            "process group has not been initialized`.",
            remedy=_remedy(program),
            # A helper may be right in itself; the callers show from where it is reached without a group.
            because=[("which this call leads to", call) for call in first.context.calls[-2:]],
        )

    def _started_several_times(self, group: InitGroup) -> Finding:
        """A program for one process, of which the user starts several."""
        return self.found(
            group.location,
            "Several processes are started of this training, and it makes no process group: each trains a model of its "
            "own on all of the data, as if the others were not there.",
            remedy="Call `torch.distributed.init_process_group()` before this and "
            "`torch.distributed.destroy_process_group()` at the end, and fix what else is found here; "
            "`gpudoctor explain scaling` shows all steps.",
            repair=_make_group(group.location),
        )


def _make_group(at: Location) -> Repair:
    make: Code = (Imported("torch.distributed.init_process_group"), "()")
    leave: Code = (Imported("torch.distributed.destroy_process_group"), "()")
    return Repair("Make the process group", (Before(at, (make,)), AtEnd(at, (leave,))), makes_group=True)


def _makes_group(program: Program) -> bool:
    """The program makes a group, or may in code that no call led to."""
    if program.has(InitGroup) or program.may_begin_group:
        return True
    # In a single process the text proves nothing: it is the branch for several that names the call.
    return program.world.several_processes and program.may_name("init_process_group")


def _without_group(event: Event) -> bool:
    if isinstance(event, Wrap):
        # None for "not known" must not count as False.
        return event.is_ddp and event.group_exists is False
    if isinstance(event, MakeSampler):
        return event.lacks_group
    if isinstance(event, GroupAsked):
        return True
    # Some rank's barrier in a shared helper does not make a program of one process one of several.
    return isinstance(event, Collective) and event.group_exists is False and not event.rank_guards


def _certain(program: Program, event: Event) -> bool:
    """In a single process, a place behind an open test may be meant for several: it is left alone.

    In any, a test of what unread code has answered may ask for the group: `if get_dist_info()[1] > 1:`. And one in a
    helper lets programs for one process use it: whether it holds in this one is for the helper's caller to know.
    """
    if event.condition.divergence & Divergence.UNREAD:
        return False
    # `try: rank = dist.get_rank()` is for one process.
    if isinstance(event, GroupAsked) and any(
        each.tries(event) and each.takes("ValueError") for each in program.events(Caught)
    ):
        return False
    asked = (literal.atom.place for literal in event.condition)
    if any(place is not None and place.path != program.entry for place in asked):
        return False
    return program.world.several_processes or not event.condition


def _what(event: Event) -> str:
    if isinstance(event, (Collective, GroupAsked)):
        return f"`{event.call}`"
    return "`DistributedDataParallel`" if isinstance(event, Wrap) else "`DistributedSampler` without `rank`"


def _remedy(program: Program) -> str:
    # In one process a group is not what is missing, but the question whether there is one.
    if not program.world.several_processes:
        return "Ask `torch.distributed.is_initialized()` first, or use the switch that makes the group elsewhere."
    make = 'all `torch.distributed.init_process_group("nccl")` before this, at the start of each process.'
    # What trains nothing is seldom launched: the test at the end of a module runs in one process.
    if not program.has(Backward) and program.has_entry:
        return f"Ask `torch.distributed.is_initialized()` first, so that one process can run it, too; otherwise c{make}"
    return f"C{make}"
