"""The process group is made a second time.

## What goes wrong

A process can have one default group. The second `init_process_group` ends every rank, often after minutes of
preparation: `ValueError: trying to initialize the default process group twice!` (a RuntimeError in older versions). It
happens where a script makes the group and then calls a helper that makes it as well, and where a training that makes
the group is run several times in one process. Where the user chooses how often, as by a list of checkpoints, that is a
warning.

## Fix

Make the group in one place, or ask `if not dist.is_initialized():` first. Several trainings in one process need
`dist.destroy_process_group()` at the end of each. No automatic fix: which of the two calls has the right arguments is
not known.

## Silent when

The group was destroyed in between, or may be there only on some paths; a framework makes it, since those ask first;
the calls stand in functions of a library file of which the order is not known; a handler takes the `ValueError`,
and the program goes on, or the call stands in the handler of a first one that takes other errors.

## Sources

The text is that of torch 2.13, run here; https://docs.pytorch.org/docs/stable/distributed.html#initialization.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.process import Caught, DestroyGroup, InitGroup
from gpudoctor.rule import CrashText, Findings, Program, Rule

REFUSES = "torch.distributed.init_process_group"
"""Others take the group that there is."""
ERROR = "ValueError"


class ProcessGroupTwice(Rule):
    code = "GPU410"
    severity = Severity.ERROR
    errors = ("ValueError: trying to initialize the default process group twice!",)
    shows_when = ("ended_well",)
    needs = (InitGroup,)
    looks_at = ((InitGroup, "again"),)
    crash = CrashText(
        "default process group twice", remedy="Ask `dist.is_initialized()` first, or call it in one place only."
    )

    def in_code(self, program: Program) -> Findings:
        seen: set[object] = set()
        for event in program.events(InitGroup):
            first = _first(program, event)
            if event.by != REFUSES or not event.again or first is None or event.location in seen:
                continue
            if program.is_caught(event, ERROR) or _stands_in_wrong_handler(program, event):
                continue
            seen.add(event.location)
            # Where one line makes it twice, the second call of its function is one too many; not so one in a loop.
            second = parting(event, first)
            again = event.location == first.location and second != parting(first, event)
            loop = _chosen_rounds(event) if event.location == first.location and not again else None
            rounds = " in the second round of the loop, if there is one" if loop else ""
            yield self.found(
                second if again else event.location,
                f"The process group exists already{rounds}: this ends with `ValueError: "
                "trying to initialize the default process group twice!`.",
                remedy="Make the group once, or ask `if not torch.distributed.is_initialized():` before this.",
                because=[
                    ("it was made here", first.location),
                    *(("which this call leads to a second time", call) for call in event.context.calls[-1:]),
                    ("and it is made here", event.location),
                    *([("the loop", loop.location)] if loop else ()),
                ],
                severity=Severity.WARNING if loop else None,
            )


def _chosen_rounds(event: InitGroup) -> Loop | None:
    """A loop over what the user has chosen, as over several checkpoints, of which there mostly is one."""
    later = (loop for loop in event.loops if loop.pass_ and loop.times is None)
    return next((loop for loop in later if loop.source and loop.source.all(lambda value: value.config)), None)


def _stands_in_wrong_handler(program: Program, event: InitGroup) -> bool:
    """It is a second try, after a first one that has failed with an error which its handler does not take."""
    around = [each for each in program.events(Caught) if each.does(event) and not each.takes(ERROR)]
    before = [each for each in program.events(InitGroup) if each.again and each.order < event.order]
    return any(handler.tries(each) for handler in around for each in before)


def _first(program: Program, event: InitGroup) -> InitGroup | None:
    """The call that surely has made the group by then, and that nobody has undone."""
    before = [each for each in program.events(InitGroup) if each.order < event.order]
    # The engine knows no group that has gone, so any end of one in between may be it.
    if not before or any(before[0].order < each.order < event.order for each in program.events(DestroyGroup)):
        return None
    first = before[0]
    return first if program.in_known_order(first, event) and event.condition.implies(first.condition) else None
