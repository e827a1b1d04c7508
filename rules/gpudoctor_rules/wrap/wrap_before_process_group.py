"""Something needs the process group before it is made.

## What goes wrong

Training on several GPUs starts the program once for each GPU; these processes first meet in a process group, which
`init_process_group` makes. `DistributedDataParallel`, a `DistributedSampler` that is not told its numbers, and every
collective such as `barrier()` need it. Before that they end the program with `ValueError: Default process group has
not been initialized, please make sure to call init_process_group.` (a `RuntimeError` before PyTorch 2.1).

## Fix

Move `init_process_group`, or what makes the group of a framework, such as `deepspeed.init_distributed` or an
`Accelerator`, to the start of the program, after the device is chosen. No automatic fix.

## Silent when

The group is made in another file, by the caller, by `init_device_mesh` or by a framework; the sampler is given both
`num_replicas` and `rank`; `is_initialized()` is asked first, or an attribute that nobody
has set by then; no group is made at all, which is GPU401.

## Sources

pytorch/pytorch#7092.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import MakeSampler
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import Imprecision, UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.questions.users_choice import takes_unset
from gpudoctor.rule import CrashText, Findings, Program, Rule
from gpudoctor_rules._error_texts import NO_GROUP


class WrapBeforeProcessGroup(Rule):
    code = "GPU106"
    severity = Severity.ERROR
    errors = NO_GROUP
    shows_when = ("ended_well",)
    needs = (Collective, MakeSampler, Wrap)
    crash = CrashText(
        "Default process group has not been initialized",
        remedy="Call `init_process_group` first, at the start of each process.",
        # Where the program never speaks of a group, that is what is missing (GPU401).
        when="makes_group",
    )

    def in_code(self, program: Program) -> Findings:
        # No group anywhere is GPU401: what to do about it is another story than moving a line up.
        if program.managed_by - program.leaving("groups") or not program.has(InitGroup, UseManaged):
            return
        # The first one ends the program, so there is nothing to say of those behind it.
        for event in program.events(Wrap, MakeSampler, Collective):
            name = _needs_group(event)
            group = _made_later(program, event)
            # `if getattr(args, "distributed", False): barrier()` does nothing before that is set.
            if name and group is not None and not takes_unset(program, event):
                # The order is decided where the ways to the two part.
                place = parting(event, group)
                maker = "init_process_group" if isinstance(group, InitGroup) else group.call.rpartition(".")[2]
                yield self.found(
                    place,
                    f"`{name}` needs the process group, and here, before `{maker}`, there is none: every "
                    "rank ends with `Default process group has not been initialized`.",
                    remedy=f"Call `{maker}` first, at the start of each process.",
                    because=[
                        ("it is needed here", event.location),
                        ("the process group is made only here", group.location),
                    ],
                )
                return


def _needs_group(event: Event) -> str:
    """What fails without a process group, empty where nothing does or where there may be a group."""
    if isinstance(event, Wrap) and event.group_exists is False:
        # `DataParallel` and `torch.compile` need no group.
        return event.kind.value if event.averages else ""
    if isinstance(event, MakeSampler):
        return event.sampler.made_by.rpartition(".")[2] if event.lacks_group else ""
    # Horovod and MPI have a world of their own, which `init_process_group` does not make.
    if isinstance(event, Collective) and event.group_exists is False and event.by == "torch.distributed":
        return event.call
    return ""


def _made_later(program: Program, event: Event) -> InitGroup | UseManaged | None:
    makers: Iterator[InitGroup | UseManaged] = program.events(InitGroup, UseManaged)
    groups = [group for group in makers if not group.condition.excludes(event.condition)]
    # Some group was made before after all, perhaps in a branch that the event's own path joined again.
    if any(group.order < event.order for group in groups):
        return None
    # A mesh takes the group that there is: in a function that others call, it may be theirs, and before it code that
    # was not followed may have made one.
    lost = any(each.order < event.order for each in program.events(Imprecision))
    groups = [group for group in groups if _is_own(group) or (program.whole and not lost)]
    return next((group for group in groups if program.in_known_order(event, group)), None)


def _is_own(group: InitGroup | UseManaged) -> bool:
    return isinstance(group, InitGroup) and group.is_own
