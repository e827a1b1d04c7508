"""A worker that fails ends as if all were well, and the others wait for it.

## What goes wrong

`torchrun` and `mp.spawn` watch the exit codes of the ranks: when one fails, they stop the others and show its
traceback. A handler around the whole training that catches every error and only prints it ends that rank with exit
code 0, so the launcher believes that it has finished. The others stand in the next all-reduce until it times out,
after 10 minutes with NCCL: `Watchdog caught collective operation timeout`. With gloo they hear that the `Connection
was closed by peer`, and swallow that as well: the job ends with exit code 0 and no trained model.

## Fix

End the handler with `raise`, or leave it out: the launcher shows the traceback of the rank that failed first. No
automatic fix, since what else the handler is for is not known.

## Silent when

The handler raises, ends with an exit code of its own, keeps the error in a variable, returns something, or hands it to
another process or to code that is not read; it names the errors that it takes; it stands inside a loop, as a second try
would, or in the process that starts the others; the ranks do not train one model together. A run sees errors that come
through a loader, a model, a backward or a step.

## Sources

https://docs.pytorch.org/docs/stable/elastic/errors.html, Lightning-AI/pytorch-lightning#8167, VentusAislant/MyDemos
(three of its programs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import Swallowed
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import STUCK

if TYPE_CHECKING:
    from gpudoctor.run.recording import Failure, Process

LOST = ("Connection closed by peer", "Connection reset by peer", "Timed out waiting", "wait timeout")
"""What a rank says whose peer is gone."""
TOGETHER = (WrapperKind.DDP, WrapperKind.FSDP)


class WorkerFailureSwallowed(Rule):
    code = "GPU414"
    severity = Severity.WARNING
    errors = STUCK
    shows_when = ("distributed", "ranks.failures")
    needs = (Swallowed,)

    def in_code(self, program: Program) -> Findings:
        if not program.distributed or not program.whole:
            return
        wraps = [event for event in program.events(Wrap) if event.kind in TOGETHER]
        for event in program.events(Swallowed):
            # In the parent an error of a worker ends all of them; inside a loop it is a second try.
            if event.loops or program.by_one_process(event):
                continue
            backward = next((each for each in program.events(Backward) if _is_training(event, each)), None)
            wrap = next((each for each in wraps if not each.condition.excludes(event.condition)), None)
            if backward is None or wrap is None:
                continue
            launcher = "`mp.spawn`" if program.world is LaunchWorld.SPAWN else "`torchrun`"
            yield self.found(
                event.location,
                f"An error of this rank ends here, with exit code 0: {launcher} does not stop the others, which wait "
                "for this rank in their next all-reduce until it times out.",
                remedy="End this handler with `raise`.",
                because=[
                    ("it is around the whole training", backward.location),
                    ("in which the ranks wait for each other", wrap.location),
                ],
            )

    def in_run(self, recording: Recording) -> Findings:
        # A handler that ends its process with an exit code of its own has the launcher end the others.
        if not recording.distributed or recording.status not in (0, None):
            return
        hidden = [(failed, rank) for rank in recording.ranks if (failed := _last_word(rank)) is not None]
        first = min(hidden, key=lambda each: each[0].at, default=None)
        if first is None or (at := first[0].place) is None:
            return
        failed, rank = first
        waiting = [each for each in recording.ranks if each is not rank and _lost_it(each, recording)]
        if not waiting:
            return
        yield self.found(
            at,
            f"Rank {rank.rank} met `{failed.type}: {_short(failed.text)}` here after step {failed.step}, "
            f"and ended as if it had finished: {_told(waiting)}.",
            remedy="End the handler that caught it with `raise`.",
            because=[(f"rank {waiting[0].rank} was here", each.place) for each in waiting[0].failures[-1:]],
        )


def _last_word(rank: Process) -> Failure | None:
    """The error after which this rank did nothing more and came to its end all the same."""
    failed = rank.failures[-1] if rank.failures else None
    if failed is None or not rank.over or rank.crash is not None or any(text in failed.text for text in LOST):
        return None
    cut_off = bool(rank.passes) and not rank.passes[-1].ended
    return failed if cut_off and rank.wraps and rank.made == failed.step else None


def _lost_it(rank: Process, recording: Recording) -> bool:
    """It waits for a rank that is gone, or was told so."""
    texts = [*(each.text for each in rank.failures), *([rank.crash.text] if rank.crash else [])]
    told = any(lost in text for text in texts for lost in LOST)
    return told or any(each.rank == rank.rank for each in recording.hang)


def _told(waiting: list[Process]) -> str:
    first = waiting[0]
    if first.crash is None and first.over:
        return f"rank {first.rank} lost its connection to it, and hid that as well"
    return (
        f"rank {first.rank} waited for it until it was told that it is gone"
        if first.over
        else (f"rank {first.rank} waits for it")
    )


def _short(text: str) -> str:
    sentence = " ".join(text.split()).replace("`", "'")
    return sentence if len(sentence) <= _LONG else f"{sentence[:_LONG]} ..."


_LONG = 120
"""Letters of an error that are shown."""


def _is_training(event: Swallowed, backward: Backward) -> bool:
    """The whole loop lies within what is tried, and not one step of it."""
    within = event.since <= backward.order < event.until
    return within and any(loop.entered >= event.since for loop in backward.loops)
