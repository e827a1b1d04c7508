"""A variable or an attribute is assigned on some ranks only, and all of them read it.

## What goes wrong

All ranks (the processes of a distributed program) run the same code, and each has variables of its own. What stands
under `if rank == 0:` is assigned on rank 0 alone: the others have no such name, and where they read it they end with
`UnboundLocalError: cannot access local variable 'writer' where it is not associated with a value`, or in a module with
`NameError: name 'writer' is not defined`; an object whose `self.log` is set on rank 0 alone gives `AttributeError:
'Training' object has no attribute 'log'` there. Lightning calls `prepare_data()` on one rank of each node: what it sets
is missing on the others. With `writer = SummaryWriter() if rank == 0 else None`, they end with `AttributeError:
'NoneType' object has no attribute 'close'` where they use it. The launcher then ends the job. With one GPU there is
only rank 0, and the program works.

## Fix

Give the name a value on all ranks, such as `writer = None` before the test, and test it where it is used; or use it
under the same test. Under Lightning set it in `setup()`, which each rank runs. No automatic fix, since what the other
ranks should do there is for the author to say.

## Silent when

A test stands around the place that reads it, or around a call that leads there, which may ask for the rank in other
words, and not around what binds it; only tests of options of the command line, of counters and of files are known not
to. Several statements bind the name, one of them in a loop, a `with` or a `try`; a handler takes the error.

## Sources

https://docs.python.org/3/faq/programming.html#why-am-i-getting-an-unboundlocalerror-when-the-variable-has-a-value; run
on two CPU ranks.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.files import asked_for
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.process import NameMissing
from gpudoctor.lint.flow.condition import Divergence, Literal
from gpudoctor.rule import Findings, Program, Recording, Rule

REMEDY = "Assign it on all ranks, if only None, or use it under the same test."
IN_HOOK = "Assign it in a hook that all ranks run, such as `setup()`."

ELSEWHERE = "Use it under the same test."

_APART = Divergence.RANK | Divergence.LOCAL | Divergence.UNREAD


class NameBoundOnSomeRanks(Rule):
    code = "GPU470"
    severity = Severity.ERROR
    errors = (
        "UnboundLocalError: cannot access local variable 'writer' where it is not associated with a value",
        "NameError: name 'writer' is not defined",
        "AttributeError: 'NoneType' object has no attribute 'close'",
        "AttributeError: 'Training' object has no attribute 'log'",
    )
    stops = True
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (NameMissing,)

    def in_code(self, program: Program) -> Findings:
        if not program.launched_in_several:
            return
        told: set[object] = set()
        for event in program.events(NameMissing):
            if program.is_caught(event, event.error) or event.guard.atom.key in told:
                continue
            # What led here may keep the other ranks away, in words that were not understood.
            if event.condition.divergence & _APART and event.error != "AttributeError":
                continue
            if any(_may_ask_for_the_rank(program, each) for each in event.asked):
                continue
            # The ranks end at the first of them: what one test has left out is one mistake.
            told.add(event.guard.atom.key)
            test = event.guard.atom.place
            # The test stands in the framework's code, and its place is where that was called.
            by_framework = any(each.location == test for each in program.events(UseManaged))
            why = (
                "this calls what assigns it on some ranks only"
                if by_framework
                else "this test lets only some ranks assign it"
            )
            yield self.found(
                at=event.location,
                message=_told(event),
                remedy=ELSEWHERE if event.is_none else IN_HOOK if by_framework else REMEDY,
                because=[(why, test)],
            )

    def in_run(self, recording: Recording) -> Findings:
        if self.code in recording.suspected:
            for error in ("is not associated with a value", "referenced before assignment", "is not defined"):
                yield from self.crashed(recording, error, remedy=REMEDY)
            none = list(self.crashed(recording, "'NoneType' object has no attribute", remedy=ELSEWHERE))
            yield from none or self.crashed(recording, "object has no attribute", remedy=REMEDY)


def _may_ask_for_the_rank(program: Program, test: Literal) -> bool:
    """It asks something that the program was given, `if env.master:`: no option that a user knows, no counter, and not
    whether a file is there."""
    if test.atom.divergence:
        return test.atom.divergence is not Divergence.BATCH_INDEX
    return program.comes_to(test) is None and asked_for(test) is None


def _told(event: NameMissing) -> str:
    atom, holds = event.guard.atom, event.guard.holds
    left_out, others = (atom.ranks, f"the ranks besides {atom.ranks}")[:: 1 if holds else -1]
    if event.is_none:
        return f"`{event.name}` is None on {left_out}, and all ranks use it here: these end with `{event.error}`."
    return (
        f"`{event.name}` is assigned on {others} only, and all ranks read it here: the others end with `{event.error}`."
    )
