"""A model is called through its DDP or FSDP wrapper on some ranks only, and waits there for the others.

## What goes wrong

`DistributedDataParallel` broadcasts the buffers of a model (the running statistics of batch norm, for example) from
rank 0 at every forward, also under `eval()` and `no_grad()`, except at a forward that follows another one without
gradients. FSDP and the third stage of ZeRO gather the parameters at every forward, those of `generate` among them. All
of these need all ranks (the processes, one for each GPU). Where only rank 0 evaluates or generates samples through the
wrapper, it hangs, or its broadcast is taken for another one of the other ranks. The watchdog ends the job after minutes
(`Watchdog caught collective operation timeout: WorkNCCL(... OpType=BROADCAST ...)`). Between two epochs the broadcast
may meet that of the others' next training step by luck; the job then goes on, and hangs after the last epoch. With
gradients switched on, DDP may wait even for a model without buffers, because it rearranges its buckets together with
the others in the first forward after the first backward.

Where all ranks generate under the third stage of ZeRO, each still stops where its own texts end, and those whose texts
are longer wait for it.

## Fix

Under DDP, call the model inside the wrapper: `model.module(...)`. Unsafe: if gradients are wanted from this call, they
would no longer be averaged. Under FSDP and ZeRO-3 there is no such way: let every rank make the call and only one use
the result. Tell `generate` to go on until all ranks are done: `synced_gpus=True`. It does so by itself where the
Trainer, Accelerate or `HfDeepSpeedConfig` has told Transformers of ZeRO.

## Silent when

Every rank makes the call, on either side of the test; the module inside the wrapper is called; the model is known to
have no buffers, or `broadcast_buffers=False`, and no gradients are recorded or all ranks have trained it for more than
a step before; the last forward of all ranks recorded no gradients, and this one does not, so that DDP broadcasts
nothing; all ranks take a training step next, in the same iteration, in which the broadcasts meet; the wrapper is that
of apex, or was given a process group, which may have just these members; the call that trains on some ranks leads to
other collectives, too, which GPU501 reports. Where it cannot be known whether the model has buffers, the finding is a
warning.

## Sources

pytorch/pytorch#54059, cfzd/Ultra-Fast-Lane-Detection-v2#119, huggingface/accelerate#3380; run on two CPU ranks with
torch 2.13: a model with batch norm hangs, at the latest after the last epoch; one without buffers returns under
`no_grad`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Collective, LeaveLoop
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.loop_rounds import in_other_rounds, training_loop
from gpudoctor.lint.repair.repair import Repair, SetArgument
from gpudoctor.lint.repair.snippets import model_inside
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import STUCK
from gpudoctor_rules.collective._missed import lonely_collectives
from gpudoctor_rules.collective._sides import left_at, parted_by, reached_alone, story
from gpudoctor_rules.collective._together import sharded_in_place

_BUFFERS = "A model without buffers, such as those of batch norm, sends none here and waits for nobody."
_GATHERS = "Each forward gathers the parameters from all ranks, so it waits for the others."
_TOGETHER = "Let every rank make this call, and only one use the result."


class WrappedForwardOnSomeRanks(Rule):
    code = "GPU502"
    severity = Severity.ERROR
    errors = STUCK
    stops = True
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (Forward,)
    looks_at = ((Collective, "rank_guards"), (Forward, "rank_guards"), (Forward, "unsynced"))

    def in_code(self, program: Program) -> Findings:
        # A call that is left to some ranks by mistake is told once, by the collectives that it leads to.
        told = {place for place, _, _ in lonely_collectives(program)}
        # Partners are matched before harm is judged: a harmless call may answer a harmful one.
        sharded = sharded_in_place(program)
        again = _made_before(program)
        called = (each for each in program.events(Forward) if each.module not in again)
        calls = (each for each in called if _through_wrapper(each) or _shards(each, sharded))
        for place, reached, shared in reached_alone(calls, lambda event: _wrapped_at(event, sharded)):
            if _shards(reached[0], sharded):
                if place not in told:
                    yield self._of_sharded(place, reached, sharded)
                continue
            events = [event for event in reached if _severity(program, event) is not None]
            if not events or (place in told and not events[0].context.evaluating):
                continue
            event, severity = events[0], _severity(program, events[0])
            through = "its wrapper" if place == event.location else "its wrapper behind this call"
            yield self.found(
                at=place,
                message=f"`{_label(event)}` is called through {through} by {ranks_in_words(event)}. {_why(event)}",
                remedy=_remedy(event),
                repair=None if shared else _go_inside(event),
                because=[*story(events), ("the model is wrapped here", _wrapper(event).place)],
                severity=severity,
                doubt="" if severity is Severity.ERROR else _BUFFERS,
                cause=left_at(event),
                needs=parted_by(events),
            )

        # Where something else takes charge as well, that may have told Transformers of the engine.
        if program.managed_by == {"deepspeed"}:
            yield from self._generated(program)

    def _generated(self, program: Program) -> Findings:
        for event in program.events(Forward):
            if event.unsynced and not event.rank_guards:
                synced = SetArgument(event.location, "synced_gpus", ("True",), lacking=True)
                yield self.found(
                    event.location,
                    "Each rank stops generating where its own texts end, and under ZeRO-3 each token gathers the "
                    "parameters from all ranks: those whose texts are longer wait for the others.",
                    remedy="Pass `synced_gpus=True`: all ranks go on until the last one is done.",
                    severity=Severity.WARNING,
                    repair=Repair("Go on until all ranks are done", (synced,)),
                )

    def _of_sharded(self, place: Location, events: list[Forward], sharded: Mapping[Value, Wrap]) -> Finding:
        event = events[0]
        wrap = sharded.get(event.module.core)
        cut = ", which `fully_shard` has sharded," if wrap is not None else ""
        return self.found(
            at=place,
            message=f"`{event.module.label or 'the model'}`{cut} is called by {ranks_in_words(event)}. {_GATHERS}",
            remedy=_TOGETHER,
            because=[*story(events), ("the model is sharded here", wrap.location if wrap is not None else None)],
            severity=Severity.ERROR,
            cause=left_at(event),
            needs=parted_by(events),
        )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._stuck import standstill

        return standstill(
            self, recording, "Call the model inside of the wrapper, `model.module(x)`, or let all ranks evaluate."
        )


def _made_before(program: Program) -> set[Value]:
    """Wrappers that some ranks make at a line where all have made one: a test there, as whether it is on its device,
    finds that one."""
    made = list(program.events(Wrap))
    by_all = {each.location for each in made if not each.rank_guards}
    return {each.wrapper for each in made if each.rank_guards and each.location in by_all}


def _through_wrapper(event: Forward) -> bool:
    # `DataParallel` lives in one process and waits for nobody; a group of its own may have just those that get here.
    module = event.module
    return module.wrapped_by(WrapperKind.DDP, WrapperKind.FSDP) and isinstance(module, Wrapper) and module.of_every_rank


def _shards(event: Forward, sharded: Mapping[Value, Wrap]) -> bool:
    wrap = sharded.get(event.module.core)
    in_place = wrap is not None and wrap.order < event.order
    return (in_place or event.gathers) and not _through_wrapper(event)


def _wrapped_at(event: Forward, sharded: Mapping[Value, Wrap]) -> Hashable:
    """Each rank may have made its wrapper on a path of its own: the line that wraps is what they share."""
    wrap = None if _through_wrapper(event) else sharded.get(event.module.core)
    if wrap is None and not _through_wrapper(event):
        return event.module.core
    return wrap.location if wrap is not None else _wrapper(event).place


def _wrapper(event: Forward) -> Wrapper:
    # All events here have passed `_through_wrapper`; the type checker cannot know.
    assert isinstance(event.module, Wrapper)
    return event.module


def _severity(program: Program, event: Forward) -> Severity | None:
    """How sure it is that this forward waits for other ranks; None where it does not."""
    wrapper = _wrapper(event)
    if wrapper.wrapped_by(WrapperKind.FSDP):
        return Severity.ERROR
    if _follows_evaluation(program, event):
        return None
    # Without the broadcast only the rearranging of buckets is left, which needs gradients.
    silenced = any(each.kind is WrapperKind.DDP and each.broadcast_buffers.in_python is False for each in wrapper.chain)
    buffers = False if silenced else event.buffers
    if _answered_by_next_step(program, event):
        return None
    if buffers:
        return Severity.ERROR
    alone = event.context.evaluating or not all(each.rearranges for each in wrapper.chain)
    return None if buffers is False and (alone or _has_rearranged(program, event)) else Severity.WARNING


def _follows_evaluation(program: Program, event: Forward) -> bool:
    """DDP broadcasts where gradients were recorded since the last forward; without any, nothing is new."""
    if not event.context.evaluating:
        return False
    before = [each for each in program.events(Forward) if each.order < event.order and _through_wrapper(each)]
    last = next((each for each in reversed(before) if _is_of_same(each, event) and program.by_every_rank(each)), None)
    return last is not None and last.context.evaluating and event.condition.implies(last.condition)


def _is_of_same(each: Forward, event: Forward) -> bool:
    """The same model is called, though ranks may have made it on paths of their own. One helper may wrap several."""
    mine, other = _wrapper(event), _wrapper(each)
    return mine.place == other.place and (mine.core == other.core or mine.core.place == other.core.place)


def _answered_by_next_step(program: Program, event: Forward) -> bool:
    """The forward that all ranks make next, in this round of all loops, takes the broadcast of this one: the rank that
    made it leaves out its own there, as DDP does after a forward without gradients."""
    if not event.context.evaluating:
        return False
    later = (each for each in program.events(Forward) if each.order > event.order and _through_wrapper(each))
    answer = next((each for each in later if _is_of_same(each, event) and not each.rank_guards), None)
    if answer is None or answer.context.evaluating or not program.by_every_rank(answer):
        return False
    beside = answer.condition.difference(event.condition)
    if in_other_rounds(answer, event) or not all(map(program.comes_to, beside)):
        return False
    between = [each for each in program.events(Collective, LeaveLoop) if event.order < each.order < answer.order]
    return not any(
        _misses(program, each, answer) if isinstance(each, LeaveLoop) else not each.rank_guards for each in between
    )


def _misses(program: Program, leaving: LeaveLoop, answer: Forward) -> bool:
    """Whoever leaves there does not come to the other, and it takes no option that is off by default."""
    if any(program.comes_to(literal) is False for literal in leaving.condition):
        return False
    if leaving.how == "return":
        return answer.context.frames[: len(leaving.context.frames)] == leaving.context.frames
    around = [loop.identity for loop in answer.loops]
    return leaving.how == "exit" or (leaving.loop is not None and leaving.loop.identity in around)


def _has_rearranged(program: Program, event: Forward) -> bool:
    """With gradients, DDP rearranges its buckets once: in the forward after the first backward, together with the other
    ranks. All of them have made that one before."""
    mine = [each for each in program.events(Forward) if each.order < event.order and _through_wrapper(each)]
    mine = [each for each in mine if _is_of_same(each, event) and not each.context.evaluating]
    backward = next((each for each in program.events(Backward) if _goes_through(each, mine)), None)
    later = mine if backward is None else [each for each in mine if each.order > backward.order]
    return backward is not None and any(_in_steps(program, each) for each in later)


def _goes_through(backward: Backward, forwards: list[Forward]) -> bool:
    return any(each.identity in backward.forwards for each in forwards)


def _in_steps(program: Program, event: Forward) -> bool:
    """Every rank makes this call in each step of a training."""
    return program.by_every_rank(event) and training_loop(program, event) is not None


def _go_inside(event: Forward) -> Repair | None:
    # With gradients they would no longer be averaged, and FSDP has the parameters in pieces.
    if not event.context.evaluating or _wrapper(event).wrapped_by(WrapperKind.FSDP):
        return None
    return Repair("Call the model inside the wrapper", (model_inside(_wrapper(event), event.location, "function"),))


def _label(event: Forward) -> str:
    return _wrapper(event).label or "the model"


def _why(event: Forward) -> str:
    if _wrapper(event).wrapped_by(WrapperKind.FSDP):
        return _GATHERS
    # `eval()` and `no_grad()` are why authors believe that nothing is exchanged, and luck is why it seems to be so.
    if event.context.evaluating:
        buffers = "the model's buffers" if event.buffers else "buffers, if the model has any,"
        return (
            f"DDP broadcasts {buffers} in this forward, and waits until the other ranks do so: the forward of their "
            "next training step may answer it, and after the last epoch none does."
        )
    if event.buffers:
        return "DDP broadcasts the model's buffers to all ranks in this forward, so it waits for the others."
    return "DDP may exchange buffers or rearrange its buckets in a forward, and then it waits for the others."


def _remedy(event: Forward) -> str:
    if _wrapper(event).wrapped_by(WrapperKind.FSDP):
        return _TOGETHER
    # Inside the wrapper nothing averages the gradients that are to come.
    if event.training is True and event.graph is True and not event.context.evaluating:
        return "Let every rank make this call, or none: the gradients are averaged over all of them."
    # Without FSDP the parameters are whole on each rank, so one rank can do it alone.
    return f"Call the model inside the wrapper: `{_label(event)}.module(...)`, or pass that to the function."
