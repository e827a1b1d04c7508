"""The training forward does not go through the wrapper, so gradients stay on their rank.

## What goes wrong

Training on several GPUs starts the program once for each GPU; each such process is called a rank.
`DistributedDataParallel`, which `accelerator.prepare` also gives back, prepares the averaging of gradients in its own
`forward`. A call of `model.module(x)`, of `accelerator.unwrap_model(model)`, of a method of the inner model, or of the
variable from before the wrap runs the inner model alone; and where a list of layers was wrapped, the model that holds
them does not go through the wrapper either. No error is raised: `backward()` fills the gradients of this
rank, nothing is averaged, and the ranks drift apart. With `DataParallel` the same call uses one GPU and leaves the
others idle. The Trainer of Transformers hands the wrapper to `compute_loss` as `model`; `self.model` is the bare one.
Fabric's wrapper refuses such a method: `RuntimeError: You are calling the method ... from outside the model`. What
`fully_shard` has cut up comes together in the forward only, and a method that computes with it ends in an error.

## Fix

Call the wrapper. Where a method other than `forward` computes the loss, let `forward` call that method. Unsafe,
because the training changes; that is the point. With Fabric, `model.mark_forward_method("loss")` after `setup`; behind
`fully_shard`, `register_fsdp_forward_method(model, "loss")`.

## Silent when

The call builds no graph, as under `no_grad`, or no optimizer uses its gradients; the wrapper runs in the same step,
too, which arms the averaging for all parameters; the program averages gradients itself; whether there is a wrapper
depends on a test that the call does not share; a method was marked for Fabric or `fully_shard`. Perf only where a
`DataParallel` wrapper trains elsewhere.

## Sources

k2-fsa/icefall#226, rwth-i6/returnn#1332; the same bypass recommended for evaluation: pytorch/pytorch#54059.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.collective import Discard
from gpudoctor.lint.events.knowledge import Prepare
from gpudoctor.lint.events.model import AttributeMissed, Forward, ForwardMarked, PastForward, Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.asked_in_tests import where_nothing_is_raised
from gpudoctor.lint.questions.gradient_use import averaged_by_hand, stepped_after
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.lint.questions.wrappings import Wrapping, wrappings
from gpudoctor.lint.repair.repair import Holds, Repair, Replace
from gpudoctor.rule import CrashText, Findings, Program, Recording, Rule
from gpudoctor_rules.wrap._training import begin_alike, inside_round, is_wrapper_of, same_round

_MIXED = "got mixed torch.Tensor and DTensor"


class WrapperBypassed(Rule):
    code = "GPU102"
    severity = Severity.ERROR
    errors = (
        "RuntimeError: aten.mm.default got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor "
        "before calling distributed operators!",
    )
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "trained")
    needs = (Backward,)
    crash = CrashText(
        _MIXED,
        because="a method computed with parameters that are shards but for the forward",
        remedy="Register the method with `register_fsdp_forward_method`, or call the model.",
    )

    def in_code(self, program: Program) -> Findings:
        yield from self._past_forward(program)
        # Other frameworks may install hooks on the bare module, so that calling it is no bypass; Fabric installs none.
        others = program.managed_by - program.leaving("forwards")
        if any(each.one_by_one for each in program.in_charge):
            others -= {"lightning"}
        if others or not any(wrappings(program)):
            return
        # What happens by default is told first: of one wrapper the rest is the same mistake.
        found = sorted(self._bypasses(program), key=lambda pair: pair[0])
        yield from (finding for _, finding in found)

    def _past_forward(self, program: Program) -> Findings:
        """Methods that run what only the forward may run, or one that the wrapper was told of."""
        marked = _marked(program)
        setups = [each for each in program.events(Prepare) if not each.by_itself and isinstance(each.made, Wrapper)]
        for event in program.events(PastForward):
            if program.is_caught(event, "RuntimeError"):
                continue
            setup = next((each for each in setups if each.given.core == event.module), None)
            if setup is not None:
                several = program.launched_in_several and event.condition.implies(setup.condition)
                found = self._refused(event, setup) if several and setup.made not in marked else None
            else:
                found = self._of_shards(program, event) if event.module not in marked else None
            if found is not None:
                yield found

    def _refused(self, event: PastForward, setup: Prepare) -> Finding:
        """Fabric's wrapper hands a method on, and refuses the forward in it."""
        return self.found(
            event.location,
            f"`{event.method}` runs a forward of {name_of(event.module)} past the wrapper of `{setup.call}`: each rank "
            "ends with `RuntimeError: You are calling the method ... from outside the model`.",
            remedy=f'Call `{in_code(setup.made, "model")}.mark_forward_method("{event.method}")` after `{setup.call}`.',
            because=[("it is wrapped here", setup.location)],
        )

    def _of_shards(self, program: Program, event: PastForward) -> Finding | None:
        """What `fully_shard` has cut up is whole in the forward, and behind it until the backward."""
        before = [each for each in program.events(Forward, Backward) if each.order < event.order]
        if any(each.module.core == event.module for each in _behind_the_last_backward(before)):
            return None
        return self.found(
            event.location,
            f"`{event.method}` computes with parameters of {name_of(event.module)} past its forward, in which "
            f"`fully_shard` brings them together: each rank ends with `RuntimeError: ... {_MIXED}`.",
            remedy=f'Write `register_fsdp_forward_method({in_code(event.module, "model")}, "{event.method}")` '
            "behind `fully_shard`, or call the model.",
            because=[
                ("it is sharded here", each.location)
                for each in program.events(Wrap)
                if each.in_place and each.wrapper == event.module
            ][:1],
        )

    def _bypasses(self, program: Program) -> Iterator[tuple[bool, Finding]]:
        """Each with whether it happens only with an option that is left out."""
        by_hand, marked = averaged_by_hand(program), _marked(program)
        for backward in program.events(Backward):
            for call in program.calls_in_graph(backward):
                wrap = _wrap_before(program, call)
                # DDP arms its reducer in its own forward: gradients of a bare call in that step are averaged, too.
                place = _place(call, wrap, backward)
                if wrap is None or wrap.wrapper in marked:
                    continue
                if _runs_too(program, call, wrap, backward):
                    continue
                # Hand-made averaging replaces DDP, but nothing gives idle GPUs of `DataParallel` work.
                if by_hand and wrap.kind is not WrapperKind.DATA_PARALLEL:
                    continue
                # It ends there in an `AttributeError` (GPU104), so nothing goes past the wrapper.
                if any(begin_alike(missed.location, place) for missed in program.events(AttributeMissed)):
                    continue
                # Backward for the gradients of inputs, as in an attack, changes no weights.
                within = call.module.core in program.within(wrap.inner)
                if stepped_after(program, backward, call.module.core if within else wrap.inner.core) is not None:
                    unusual = bool(program.unusual(place, (call.location,)))
                    yield unusual, self._finding(program, call, wrap, place)

    def in_run(self, recording: Recording) -> Findings:
        yield from super().in_run(recording)
        drift = recording.drift
        if drift is None or recording.averages_by_hand or not drift.optimizer.held:
            return
        steps = [step for rank in recording.ranks for step in rank.steps]
        # Weights that are used outside of `forward` go past the wrapper, too (GPU707).
        if "GPU707" in recording.suspected:
            return
        # Inside of a compiled model forwards go unseen, but then the ranks do not drift apart.
        through = any(step.counts.get("forwards") for step in steps)
        # Some went through it: that others did not is told by the code.
        if through and self.code not in recording.suspected:
            return
        went = "Training forwards bypassed the wrapper" if through else "No training forward went through the wrapper"
        if (at := drift.place) is not None:
            yield self.found(
                at,
                f"{went} in {recording.ranks[0].made} steps, "
                f"and after step {drift.step} the ranks held different values in parameter {drift.name}.",
                remedy="Call the wrapper itself, and not the model inside of it.",
                because=[("the wrapper is made here", wrap.place) for wrap in recording.ranks[0].wraps[:1]],
            )

    def _finding(self, program: Program, call: Forward, wrap: Wrapping, place: Location) -> Finding:
        wrapper, inner = _shown(wrap), wrap.inner.core
        if wrap.kind is WrapperKind.DATA_PARALLEL:
            harm = "so one GPU computes the whole batch and the others idle."
            # Where the wrapper trains elsewhere, nothing is wrong with the result: one more pass is slow.
            severity = Severity.PERF if _trains(program, wrap) else None
        else:
            harm = "so the gradients of each rank stay there and the ranks train different models."
            severity = None
        # A Trainer hands the wrapper to the methods that it calls, and keeps the bare model itself.
        handed = isinstance(wrap.at, Prepare) and program.wraps_as_launched(wrap.at.managed.framework)
        if handed:
            wrapper = "the wrapper, which is the `model` that the Trainer hands over"
        repair = _call_wrapper(call, wrap) if not handed else None
        return self.found(
            place,
            f"This training forward bypasses {wrapper}, {harm}",
            remedy=f"Call {wrapper}{'' if handed else ' itself'}; what needs another method belongs in `forward`.",
            because=[
                (f"{name_of(inner)} is {'trained' if handed else 'wrapped'} here", wrap.at.location),
                (f"{name_of(inner)} runs here", call.location),
            ],
            severity=severity,
            doubt="The launch may be configured for an engine that averages without this forward."
            if program.managed_by
            else "",
            repair=repair,
            cause=wrap.at.location,
        )


def _marked(program: Program) -> set[Module | Wrapper]:
    """The wrappers that were told of a method, which they run as they run the forward."""
    return {event.wrapper for event in program.events(ForwardMarked)}


def _behind_the_last_backward(events: list[Forward | Backward]) -> Iterator[Forward]:
    for each in reversed(events):
        if isinstance(each, Backward):
            return
        yield each


def _shown(wrap: Wrapping) -> str:
    # What is prepared keeps the name of what it was made of, which may not be its own.
    if isinstance(wrap.at, Prepare):
        return f"what `{in_code(wrap.at.managed, 'accelerator')}.{wrap.at.call}` gave back"
    named = in_code(wrap.wrapper, "model")
    return f"the wrapper `{named}`" if named == wrap.wrapper.label else "the wrapper"


def _call_wrapper(call: Forward, wrap: Wrapping) -> Repair | None:
    # A part of the model, or another method than `forward`, has no such way.
    if call.reached_at is not None or call.module.core != wrap.inner.core:
        return None
    return Repair("Call the wrapper", (Replace(call.location, (Holds(wrap.wrapper),), part="function"),))


def _place(call: Forward, wrap: Wrapping | None, backward: Backward) -> Location:
    """Where the training asks for the bare module: its call, or that of the method which runs it."""
    # `model.module.loss(x)` is the line to change, not the layer call deep inside of `loss`.
    if call.reached_at is not None:
        return call.reached_at
    part = wrap is not None and call.module.core != wrap.inner.core
    return parting(call, backward) if part else call.location


def _wrap_before(program: Program, call: Forward) -> Wrapping | None:
    """The wrap that this call of a bare module, or of a part of it, goes past."""
    module = call.module.core_under(WrapperKind.COMPILED)
    # Without a graph there are no gradients to average: evaluating the bare module is right.
    if module is None or not call.graph:
        return None
    kinds = (WrapperKind.DDP, WrapperKind.DATA_PARALLEL, WrapperKind.FSDP)
    made = [
        wrap
        for wrap in wrappings(program)
        if wrap.at.order < call.order and not wrap.at.condition.excludes(call.condition)
        if wrap.kind in kinds and wrap.wrapper != wrap.inner and _shares(program, module, wrap)
        if not _is_dropped(program, wrap)
    ]
    # A wrap under a switch that this call does not share may never have happened here; one of several has.
    sure = call.condition.implies_one_of([where_nothing_is_raised(wrap.at.condition) for wrap in made])
    return made[0] if sure else None


def _shares(program: Program, module: Module, wrap: Wrapping) -> bool:
    """The module is a part of what is wrapped; or layers of it were wrapped apart from it, in a list of their own."""
    inside = program.within(wrap.inner)
    if module in inside:
        return True
    whole = program.within(module)
    # `net.encoder = DDP(net.encoder)` runs through the wrapper.
    return wrap.inner.core not in whole and not inside.isdisjoint(whole)


def _is_dropped(program: Program, wrap: Wrapping) -> bool:
    """The statement that makes the wrapper throws it away: that is GPU103. Who gives a wrapper back later, as `fit` or
    `enter_context` may do, drops nothing."""
    discards = (event for event in program.events(Discard) if event.value == wrap.wrapper)
    return any(event.location in wrap.at.led_there for event in discards)


def _runs_too(program: Program, call: Forward, wrap: Wrapping, backward: Backward) -> bool:
    """The wrapper runs with a graph in the same iteration, which makes it average what follows."""
    others = [
        # A wrapped forward under `no_grad` prepares no averaging.
        other
        for other in program.events(Forward)
        if other.graph and is_wrapper_of(other.module, wrap) and not other.condition.excludes(call.condition)
        if same_round(call, other) or (same_round(backward, other) and inside_round(call, other))
    ]
    # Two networks by turns: the forward that prepares the averaging comes only behind this backward.
    return any(other.order < backward.order or wrap.kind is WrapperKind.DATA_PARALLEL for other in others)


def _trains(program: Program, wrap: Wrapping) -> bool:
    calls = (call for backward in program.events(Backward) for call in program.calls_in_graph(backward))
    return any(is_wrapper_of(call.module, wrap) for call in calls)
