"""Collectives that run in the background: from their start until somebody waits for them."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.collective_taint import sharing_memory
from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ProcessState, TensorState, WorkState
from gpudoctor.lint.domain.container import TupleOf, items_held
from gpudoctor.lint.domain.group import Work
from gpudoctor.lint.domain.tensor import Tensor, tensors_in
from gpudoctor.lint.domain.value import FALSE, NONE, TRUE, Const, Text, Value, Values, single_of
from gpudoctor.lint.events.collective import ReadTooEarly, ResultUsed, StartWork, WorkDone
from gpudoctor.lint.interface.library_call import Call, LibraryContext, definite_values, flatten, singleton

WAITING = frozenset({"wait", "result", "get_future", "synchronize", "is_completed", "is_success"})
"""What one asks a handle for who waits for it, or lets something else wait."""


def begin_work(call: Call, name: str, work: Work, targets: list[Value]) -> None:
    """A call has returned before its work is done."""
    call.emit(StartWork, call=name, work=work)
    tensors = tensors_in(targets)
    for each in [same for tensor in tensors for same in sharing_memory(call.do, tensor)]:
        call.do.set_state(each, TensorState.pending, singleton(work))
    known = items_held(call.do.state(PROCESS, ProcessState.works))
    call.do.set_state(PROCESS, ProcessState.works, singleton(TupleOf((*known, singleton(work)))))


def end_work(call: Call, work: Value | None) -> None:
    """Somebody waits: for one handle, or for all that was begun before (None)."""
    found = call.do.state(PROCESS, ProcessState.works) if work is None else singleton(TupleOf((singleton(work),)))
    if found is None:
        return
    call.emit(WorkDone, work=work)
    for each in flatten(call.do, list(found)):
        if isinstance(each, Work):
            call.do.set_flag(each, WorkState.done)
    if work is None:
        call.do.set_state(PROCESS, ProcessState.works, singleton(TupleOf(())))


def note_use(do: LibraryContext, work: Work, use: str, place: Location) -> None:
    """Log that the None or the handle that a collective returned is used as the tensor."""
    kind, handle = do.state(work, WorkState.call), do.state(work, WorkState.asynchronous)
    only = single_of(kind)
    do.emit(
        ResultUsed, at=place, call=str(only.value) if isinstance(only, Const) else "collective", use=use,
        collective_at=work.place, asynchronous=handle is not None and handle.single == TRUE,
    )  # fmt: skip


def note_shown(do: LibraryContext, shown: Value | None, place: Location) -> None:
    """Who shows a handle may want to see it; None is shown by mistake."""
    parts = shown.parts if isinstance(shown, Text) else (shown,)
    for each in definite_values(do, [singleton(part) for part in parts if part is not None]):
        if isinstance(each, Work) and (handle := do.state(each, WorkState.asynchronous)) and handle.single == FALSE:
            note_use(do, each, "shown", place)


def note_pending(do: LibraryContext, tensor: Tensor, place: Location) -> None:
    """The numbers of a tensor are asked for: log it where a collective may still be writing them."""
    found = do.state(tensor, TensorState.pending)
    here = found.restrict(do.path) if found is not None else Values(())
    work = here.single
    if not isinstance(work, Work) or do.flag(work, WorkState.done) is not NO:
        return
    # Only what was surely begun on this path.
    if all(do.path.implies(each.condition) for each in here.bindings):
        do.emit(ReadTooEarly, at=place, work=work, subject=tensor)
        do.set_state(tensor, TensorState.pending, singleton(NONE))
