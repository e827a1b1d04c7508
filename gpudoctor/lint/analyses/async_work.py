"""Collectives that run in the background: from their start until somebody waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import Library
from gpudoctor.lint.domain.group import Work
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import NONE, TRUE, Value, Values
from gpudoctor.lint.events.collective import ReadTooEarly, StartWork, WorkDone
from gpudoctor.lint.library_call import Call, LibraryContext, flatten, singleton

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location

OPEN = Library("torch.distributed.Work")
WAITING = frozenset({"wait", "result", "get_future", "synchronize", "is_completed", "is_success"})
"""What one asks a handle for who waits for it, or lets something else wait."""


def begin_work(call: Call, name: str, work: Work, targets: list[Value]) -> None:
    """A call has returned before its work is done."""
    call.emit(StartWork, call=name, work=work)
    # `a.data` shares its memory with `a`.
    for each in [same for value in targets for same in (value, *(call.do.fact(value, "memory") or ()))]:
        if isinstance(each, Tensor):
            call.do.set_fact(each, "pending", singleton(work))
    before = call.do.fact(OPEN, "all")
    known = before.single.items if before is not None and isinstance(before.single, TupleOf) else ()
    call.do.set_fact(OPEN, "all", singleton(TupleOf((*known, singleton(work)))))


def end_work(call: Call, work: Value | None) -> None:
    """Somebody waits: for one handle, or for all that was begun before (None)."""
    found = call.do.fact(OPEN, "all") if work is None else singleton(TupleOf((singleton(work),)))
    if found is None:
        return
    call.emit(WorkDone, work=work)
    for each in flatten(call.do, list(found)):
        call.do.set_fact(each, "done", singleton(TRUE))
    if work is None:
        call.do.set_fact(OPEN, "all", singleton(TupleOf(())))


def note_pending(do: LibraryContext, tensor: Tensor, place: Location) -> None:
    """The numbers of a tensor are asked for: log it where a collective may still be writing them."""
    found = do.fact(tensor, "pending")
    here = found.restrict(do.path) if found is not None else Values(())
    work = here.single
    if not isinstance(work, Work) or do.fact(work, "done") is not None:
        return
    # Only what was surely begun on this path.
    if all(do.path.implies(each.condition) for each in here.bindings):
        do.emit(ReadTooEarly, at=place, work=work, subject=tensor)
        do.set_fact(tensor, "pending", singleton(NONE))
