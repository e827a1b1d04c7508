"""The result of a reduction is dropped, and only this rank's own value is used.

## What goes wrong

`dist.all_reduce(x)` writes its result into `x`. Given `x.clone()`, `x / n` or `torch.tensor(value)`, it writes into
that copy, which nobody else has. `hvd.allreduce(x)`, `accelerator.reduce(x)` and the collectives of
`torch.distributed.nn` do the reverse: they leave `x` alone and return the result. Both look as if the reduction had
happened; no error is raised, and each rank (each process, one for each GPU) continues with its own value.

## Fix

Give the copy a name, reduce that, and continue with it; or keep what the call returns. No automatic fix: the name that
is used later must change as well.

## Silent when

What is reduced holds nothing of this rank's own, as the zero of a barrier or of a first call that warms up; the call is
all that a loop does, and clocks are read around it; the tensor comes from a helper that may keep it; the argument
shares its memory with a tensor that has a name, as `x.detach()`.

## Sources

tczhangzhi/pytorch-distributed#14, https://horovod.readthedocs.io/en/stable/api.html#module-horovod.torch,
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_reduce; run on two CPU ranks with torch
2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Collective, Discard
from gpudoctor.lint.events.host_waits import ClockRead
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.rule import Findings, Program, Recording, Rule

COPIED = "writes its result into a copy that was made for this call and is gone: all continue with their own value."
RETURNED = "leaves its argument as it is and returns the result, which is dropped: all continue with their own value."


class ReducedTemporary(Rule):
    code = "GPU513"
    severity = Severity.ERROR
    of_ranks = True
    needs = (Collective,)

    def in_code(self, program: Program) -> Findings:
        # Alone, the sum is what was passed in.
        dropped = {event.value for event in program.events(Discard)}
        for event in program.events(Collective):
            # What is kept may be used: then it is another rule that has something to say.
            if event.returned not in dropped:
                continue
            if _writes_into_copy(event) and not _is_measured(program, event):
                message, remedy = COPIED, "Give the copy a name first, reduce it, and continue with it."
            # Libraries that return the result leave their argument alone.
            elif not event.in_place and _is_own(event):
                message, remedy = (
                    RETURNED,
                    f"Keep what it returns: `total = ...{event.call}(...)`, and continue with it.",
                )
            else:
                continue
            yield self.found(at=event.location, message=f"`{event.call}` {message}", remedy=remedy)

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._numbers import added_up, answers, told

        for line in added_up(recording):
            read = answers(recording, line)
            own = [each for each in read if each.result.relation in ("own", "part")]
            # The result was gone at once, and the number from before is what is used.
            if not own or len(own) < len(read) or not any(each.sum.dropped for each in own):
                continue
            at = own[0].read.place
            yield self.found(
                line,
                f"`{own[0].sum.call}` made {own[0].sum.after:.4g} here, in a copy that nobody keeps. "
                f"What is used after step {own[0].result.step} is each rank's own value: {told(own)}.",
                remedy="Give the copy a name first, reduce it, and continue with it.",
                because=[("and used here", at)],
            )

    def could_show(self, recording: Recording) -> bool:
        from gpudoctor_rules.collective._numbers import added_up, answers

        return any(answers(recording, line) for line in added_up(recording))


def _writes_into_copy(event: Collective) -> bool:
    # The rank that sends may send a copy: nothing is written there.
    sends = event.call != "all_reduce" and bool(event.rank_guards)
    return event.in_place and event.temporary and not event.asynchronous and not sends


def _is_measured(program: Program, event: Collective) -> bool:
    """Clocks are read around a loop that does nothing but this: nobody wants the sum of what it is tried with."""
    if not event.loops or any(program.during(event.loops[-1], Forward, Backward)):
        return False
    near = [each for each in program.events(ClockRead) if each.context.frames == event.context.frames]
    orders = [each.order for each in near if len(each.loops) < len(event.loops)]
    return any(order < event.order for order in orders) and any(order > event.order for order in orders)


def _is_own(event: Collective) -> bool:
    """What is reduced is surely this rank's own: the zero of a barrier is not."""
    return event.subject is not None and event.subject.all(_is_of_this_rank)


def _is_of_this_rank(value: Value) -> bool:
    return isinstance(value, Tensor) and bool(value.dependence & Divergence.LOCAL or value.shards)
