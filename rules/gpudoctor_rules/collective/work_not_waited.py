"""A collective goes on in the background, and nobody waits for it before its tensor is used.

## What goes wrong

With `async_op=True` a collective returns at once, with a handle, while the numbers of the other ranks (processes, one
for each GPU) are still on their way. Code that reads the tensor before `handle.wait()` gets the old numbers, half of
the new ones, or by chance the right ones; no error is raised, and the result differs from run to run. The same goes for
`isend` and `irecv`: a buffer that is filled again before its `isend` is done sends the wrong numbers.

## Fix

Keep the handle and call `.wait()` on it before the tensor is used; without work in between, leave `async_op` out. No
automatic fix: where to wait decides what is gained.

## Silent when

The handle is waited for anywhere, is asked for its future or whether it has completed, or is given to code that could
not be read; a barrier, another collective of all ranks or `torch.cuda.synchronize()` comes in between.

## Sources

https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations,
pytorch/pytorch#38375; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.group import Work
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.collective import Discard, ReadTooEarly, ResultUsed, StartWork, WorkDone
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.host_waits import HostSync
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule


class WorkNotWaited(Rule):
    code = "GPU509"
    severity = Severity.ERROR
    of_ranks = True
    needs = (ReadTooEarly, StartWork)

    def in_code(self, program: Program) -> Findings:
        # Alone, a collective is done when it returns.
        told: set[Location] = set()
        for read in program.events(ReadTooEarly):
            work = read.work
            if work.place in told or work in program.escaped:
                continue
            if _managed(program, work) or _synchronized(program, work, read.order):
                continue
            told.add(work.place)
            yield self.found(
                at=_place(program, work, read),
                message=f"{name_of(read.subject, 'the tensor')} is used here while a collective may still be writing "
                "it: the numbers are old, new or mixed, by chance.",
                remedy="Call `.wait()` on the handle first, or leave out `async_op=True`.",
                # Between the two there may be much work, which is what asynchronous calls are for.
                because=[
                    ("the collective is started here", work.place),
                    ("and here the tensor is used", read.location),
                ],
            )
        yield from self._never(program, told)

    def _never(self, program: Program, told: set[Location]) -> Findings:
        """Work that nobody ever waits for, in a program of which all was seen."""
        if not program.whole or program.cut_short:
            return
        # A handle that is taken for the tensor is reported as that.
        told |= {used.collective_at for used in program.events(ResultUsed)}
        for start in program.events(StartWork):
            if start.work.place in told or not _is_never_done(program, start):
                continue
            told.add(start.location)
            dropped = next((each for each in program.events(Discard) if each.value == start.work), None)
            yield self.found(
                # A helper that hands its handle on is not who drops it.
                at=dropped.location if dropped is not None else start.location,
                message=f"Nobody ever waits for this `{start.call}`: what uses the tensor later may find the old "
                "numbers, new ones, or both.",
                remedy="Keep the handle that it returns and call `.wait()` on it before the tensor is used again.",
                because=[("the collective is started here", start.location)],
                doubt="Where nothing uses the tensor any more, no harm is done.",
            )

    def in_run(self, recording: Recording) -> Findings:
        drift = recording.drift
        early = next((each for rank in recording.ranks for each in rank.stepped_early), None)
        # Something else may have waited, as a barrier behind it does.
        if drift is not None and early is not None and early.place is not None:
            yield self.found(
                early.place,
                f"Nobody had waited for this `{early.call}` when the optimizer took its gradient, and after step "
                f"{drift.step} the ranks held different values in parameter {drift.name}.",
                remedy="Call `.wait()` on the handle before the step, or leave out `async_op=True`.",
            )
            return
        for rank in recording.ranks:
            for read in rank.reads:
                if read.early and read.place is not None:
                    yield self.found(
                        read.place,
                        f"Rank {rank.rank} read this while `{read.early}` was still writing it: nobody had waited.",
                        remedy="Call `.wait()` on the handle first, or leave out `async_op=True`.",
                        because=[("the collective is started here", read.started)],
                    )
                    return


def _place(program: Program, work: Work, read: ReadTooEarly) -> Location:
    """Where the handle is dropped for good, or else the call beside who has it that leads to the use of the tensor."""
    dropped: list[Event] = [each for each in program.events(Discard) if each.value == work and each.order < read.order]
    begun = [each for each in program.events(StartWork) if each.work == work and each.order < read.order]
    last = next(reversed(dropped or begun), None)
    if last is None:
        return read.location
    inside = bool(dropped) and parting(last, read) != last.location
    return last.location if inside else parting(read, last)


def _managed(program: Program, work: Work) -> bool:
    """It was begun inside of a context manager that could not be read, which may wait for all at its end."""
    return any("unread" in start.context.contexts for start in program.events(StartWork) if start.work == work)


def _synchronized(program: Program, work: Work, before: int) -> bool:
    """The host waited for the GPU between the start of the work and an event."""
    starts = [start.order for start in program.events(StartWork) if start.work == work and start.order < before]
    begun = max(starts, default=before)
    return any(begun < sync.order < before and sync.for_all for sync in program.events(HostSync))


def _is_never_done(program: Program, start: StartWork) -> bool:
    # Who was handed the handle may wait for it.
    work = start.work
    if work in program.escaped or "unread" in start.context.contexts:
        return False
    for done in program.events(WorkDone):
        # Rounds of a loop may wait for the work of the previous iteration.
        same = done.work is not None and done.work.place == work.place
        if same or (done.work is None and done.order > start.order):
            return False
    return not any(sync.for_all and sync.order > start.order for sync in program.events(HostSync))
