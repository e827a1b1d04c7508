"""What an in-place collective returns is used as if it were the tensor.

## What goes wrong

`all_reduce`, `broadcast`, `reduce`, `all_gather` and the other collectives of `torch.distributed` write their result
into the tensor that they are given. The call itself returns `None`, or with `async_op=True` a handle to wait for.
`loss = dist.all_reduce(loss)` therefore throws the loss away, on every rank (each process, one for each GPU), and the
next use ends in `AttributeError: 'NoneType' object has no attribute 'item'` or `TypeError: unsupported operand
type(s) for /: 'Work' and 'int'`.

## Fix

Drop the assignment and continue with the tensor that was passed in. Safe where the target of the assignment is that
same tensor.

## Silent when

The function returns its result: `torch.distributed.nn.functional`, the functional collectives, Horovod, Accelerate, a
function of the project with the same name. The handle of `async_op=True` is waited for and nothing else.

## Sources

https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce; run on two CPU ranks with torch
2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.events.collective import ResultUsed
from gpudoctor.lint.repair.repair import Repair, Unassign
from gpudoctor.rule import CrashText, Findings, Program, Rule

_NO_TENSOR = "a collective returns a handle or nothing, not a tensor"
_GIVEN = "Use the tensor that was given to the collective: it holds the result."


class InPlaceCollectiveResultUsed(Rule):
    code = "GPU504"
    severity = Severity.ERROR
    errors = (
        "AttributeError: 'NoneType' object has no attribute 'item'",
        "TypeError: unsupported operand type(s) for /: 'NoneType' and 'int'",
        "TypeError: unsupported operand type(s) for /: 'Work' and 'int'",
    )
    fix_safety = Safety.SAFE
    shows_when = ("ended_well",)
    needs = (ResultUsed,)
    crash = (
        CrashText("_distributed_c10d.Work'", because=_NO_TENSOR, remedy=_GIVEN),
        # What None came from, an error does not say.
        CrashText(
            ("'NoneType' object has no attribute", "but got NoneType"),
            because=_NO_TENSOR,
            remedy=_GIVEN,
            when="suspected",
        ),
    )

    def in_code(self, program: Program) -> Findings:
        for event in program.events(ResultUsed):
            yield self.found(
                at=event.collective_at,
                message=_message(event),
                remedy=_remedy(event),
                because=[(f"it is {event.use} here", event.location)],
                repair=None if event.asynchronous else Repair("Drop the assignment", (Unassign(event.collective_at),)),
            )


def _message(event: ResultUsed) -> str:
    if event.asynchronous:
        return f"`{event.call}` with `async_op=True` returns a handle, not the tensor, and the handle is {event.use}."
    return f"`{event.call}` works in place and returns None, which is {event.use} as if it were the result."


def _remedy(event: ResultUsed) -> str:
    if event.asynchronous:
        return "Keep the handle apart, call `.wait()` on it, and continue with the tensor that was passed in."
    # Here dropping the assignment is all: the name goes on holding the tensor.
    if event.target_is_argument:
        return "Drop the assignment: what was passed in holds the result."
    return "Make the call a statement of its own, and continue with the tensor that was passed in."
