"""The optimizer holds other parameters than those that are trained.

## What goes wrong

An optimizer keeps exactly the parameters that it was given. A layer that the model gets after that, as a new head, is
never trained. Where the model is sharded after that, or copied, or built anew, training computes gradients for other
parameters, and `optimizer.step()` goes on changing the old ones, which nobody uses, or finds no gradient and does
nothing. No error is raised, and the loss does not go down, or not as it should.

## Fix

Make the optimizer when the model is finished and sharded. No automatic fix: a scheduler or a loaded state may refer to
the old one.

## Silent when

`DistributedDataParallel` and `DataParallel`, which keep the parameters; `FullyShardedDataParallel` with
`use_orig_params`; a framework that puts the new parameters into the optimizer; not all that the optimizer holds, or
that is trained, is known; the trained parameters are in another optimizer.

## Sources

https://docs.pytorch.org/docs/stable/fsdp.html, huggingface/accelerate#3256, huggingface/accelerate#2665,
pytorch/pytorch#149205.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.domain.module import UNSEEN, Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.model import Forward, GradientFlag, PartAdded, Wrap
from gpudoctor.lint.events.training_step import Backward, GroupAdded, MakeOptimizer, OptimizerStep, TakeGradient
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.wrap._later import ddp_around


class OptimizerOfOtherParameters(Rule):
    code = "GPU120"
    severity = Severity.ERROR
    shows_when = ("ranks.optimizers.held",)
    needs = (OptimizerStep,)

    def in_code(self, program: Program) -> Findings:
        if not program.absence(knows=program.leaving("loop")):
            return
        told: set[Value] = set()
        for step in program.events(OptimizerStep):
            # What never steps is left over, and harms nobody.
            held = step.optimizer
            if not isinstance(held, Optimizer) or held in told or held.managed or not held.complete or not held.modules:
                continue
            made = next((each for each in program.events(MakeOptimizer) if each.optimizer == held), None)
            found = self._judge(program, made, step, held) if made is not None else None
            if made is not None and found is None:
                found = self._left_out(program, made, step, held)
            if made is not None and found is not None:
                told.add(held)
                yield found

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            for each in rank.optimizers:
                # Several optimizers may share a wrapper; one that holds nothing of any trains something else.
                alien = each.held and not any(held for _, held in each.held.values())
                if alien and len(rank.optimizers) == 1 and each.place is not None:
                    yield self.found(
                        each.place,
                        f"This {each.type} holds {each.parameters} parameters, and none "
                        "of those that the wrapped model has: the model stays as it is.",
                        remedy="Make the optimizer from the parameters of the model that is trained, once it is final.",
                    )

        unchanged = [
            rank.optimizers[0]
            for rank in recording.ranks[:1]
            if len(rank.checks) > _ENOUGH and len({each.sums for each in rank.checks if not each.optimizer}) == 1
        ]
        # Parameters that were sharded away leave no trace in the wrapper, so lint must have seen it.
        if unchanged and self.code in recording.suspected and not unchanged[0].held and unchanged[0].place is not None:
            yield self.found(
                unchanged[0].place,
                f"The {unchanged[0].parameters} parameters of this {unchanged[0].type} were the same after all steps.",
                remedy="Make the optimizer from the parameters of the model that is trained, once it is final.",
            )

    def _judge(self, program: Program, made: MakeOptimizer, step: OptimizerStep, held: Optimizer) -> Finding | None:
        wrap = _sharded_later(program, made, step, held)
        if wrap is not None:
            # FSDP2 leaves the module the object that it was.
            how = "`fully_shard`" if wrap.wrapper == wrap.inner else f"`{WrapperKind.FSDP.value}`"
            return self.found(
                made.location,
                f"{name_of(held, 'the optimizer')} gets the parameters of {name_of(wrap.inner)} before {how} puts "
                "others in their place: its steps change nothing that is trained.",
                remedy="Shard the model first, and make the optimizer after that.",
                because=[("sharded here", wrap.location)],
            )
        trained = _trained_instead(program, held)
        if trained is None:
            return self._held_twice(program, made, step, held)
        return self.found(
            made.location,
            f"{name_of(held, 'the optimizer')} holds the parameters of {_names(held)}, and another model is trained: "
            "its steps change nothing that is used.",
            remedy=f"Give it the parameters of the model that is trained, {name_of(trained)}, once that is built.",
            because=[
                ("its parameters are those of this model", min(each.place for each in held.modules)),  # type: ignore[type-var]
                ("this one is trained", trained.place),
            ],
        )

    def _left_out(self, program: Program, made: MakeOptimizer, step: OptimizerStep, held: Optimizer) -> Finding | None:
        """A layer that came into the model behind the optimizer, which never hears of it."""
        for added in program.events(PartAdded):
            if added.parameters is not True or not added.fresh or not made.order < added.order < step.order:
                continue
            if not any(added.parent in program.within(each) for each in held.modules):
                continue
            # What is wrapped already has another mistake (GPU115).
            if not step.condition.implies(added.condition) or ddp_around(program, added.parent, added) is not None:
                continue
            if _is_trained(program, added) and not _is_given_later(program, added):
                new = f"a new `{added.name}`" if added.name else "new layers"
                return self.found(
                    made.location,
                    f"{name_of(held, 'the optimizer')} is made before {_names(held)} gets {new}, whose parameters it "
                    "never has: they stay as they were drawn.",
                    remedy="Make the optimizer when the model is finished.",
                    because=[("added here", added.location)],
                )
        return None

    def _held_twice(
        self, program: Program, made: MakeOptimizer, step: OptimizerStep, held: Optimizer
    ) -> Finding | None:
        """Two networks, two optimizers, and both were given the parameters of one."""
        # One for each value of a setting is still one at a time.
        optimizers = [
            event
            for event in program.events(MakeOptimizer)
            if event.optimizer != held and not event.condition.excludes(made.condition)
        ]
        other = next((e for e in optimizers if e.optimizer.modules == held.modules), None)
        before = [e for e in program.events(Backward) if e.order < step.order]
        if other is None or not before or not _all_known(program, held):
            return None
        wrapped = {wrap.wrapper.core for wrap in program.events(Wrap) if isinstance(wrap.wrapper, Wrapper)}
        calls = [program.forwards[identity] for identity in before[-1].forwards if identity in program.forwards]
        for core in [call.module.core for call in calls if call.graph]:
            if core in wrapped and _is_free(program, core):
                return self.found(
                    made.location,
                    f"{name_of(held, 'the optimizer')} holds the parameters of {_names(held)}, as another optimizer "
                    f"does, and those of {name_of(core)} are in none: it is never trained.",
                    remedy=f"Give it the parameters of {name_of(core)}.",
                    because=[("the other optimizer", other.location), ("this model is never trained", core.place)],
                )
        return None


def _is_trained(program: Program, added: PartAdded) -> bool:
    """A model that has it now runs with a graph, and nothing freezes it."""
    frozen = (flag for flag in program.events(GradientFlag) if flag.on is False and flag.order > added.order)
    if any(added.part in program.within(flag.module) for flag in frozen):
        return False
    calls = (call for call in program.events(Forward) if call.order > added.order and call.graph)
    return any(added.part in program.within(call.module.core) for call in calls)


def _is_given_later(program: Program, added: PartAdded) -> bool:
    """Another optimizer, or this one, may be given its parameters."""
    given: list[tuple[Event, frozenset[Value], bool]] = [
        (event, event.optimizer.modules, event.optimizer.complete) for event in program.events(MakeOptimizer)
    ]
    given += [(event, event.modules, event.complete) for event in program.events(GroupAdded)]
    return any(
        event.order > added.order and (not complete or any(added.part in program.within(each) for each in modules))
        for event, modules, complete in given
    )


def _names(held: Optimizer) -> str:
    return name_of(min(held.modules, key=repr).core)


def _sharded_later(program: Program, made: Event, step: Event, held: Optimizer) -> Wrap | None:
    """Where the parameters are replaced between the making of the optimizer and its step."""
    for wrap in program.events(Wrap):
        # With it, FSDP shows the parameters that it was given.
        replaces = wrap.kind is WrapperKind.FSDP and wrap.keeps_parameters is False
        if not replaces or wrap.opaque or not made.order < wrap.order < step.order:
            continue
        # Layers are sharded one by one, before the whole.
        inside = any(wrap.inner.core in program.within(each) for each in held.modules)
        if (inside or _related(program, held, wrap.inner.core)) and wrap.condition.implies(made.condition):
            return wrap
    return None


def _trained_instead(program: Program, held: Optimizer) -> Module | None:
    """A model that is trained and is in no optimizer, where all that is trained is known and none of it is held."""
    grads = list(program.events(Backward, TakeGradient))
    # In a graph that is not known the parameters may be after all.
    if not _all_known(program, held):
        return None
    calls = [program.forwards[identity] for each in grads for identity in each.forwards if identity in program.forwards]
    # A set of them has no order that runs agree about.
    calls.sort(key=lambda call: call.order)
    # That a part of it is called says nothing of the rest.
    trained = [call.module.core for call in calls if call.graph and not call.followed]
    if any(_related(program, held, core) for core in trained):
        return None
    # What it holds runs itself: it may have parameters of its own, and layers that it does not know (GPU212).
    if any(call.module.core in {each.core for each in held.modules} for call in calls if call.graph):
        return None
    for core in trained:
        if core.made_by != UNSEEN and _is_free(program, core):
            return core
    return None


def _all_known(program: Program, held: Optimizer) -> bool:
    """All that is stepped, and what each optimizer holds."""
    grads = list(program.events(Backward, TakeGradient))
    optimizers = (event.optimizer for event in program.events(MakeOptimizer))
    return (
        all(each.complete for each in grads)
        # What of a model is put into another one is used there.
        and not any(program.within(each) & program.escaped for each in held.modules)
        and all(each.complete for each in optimizers)
        and all(isinstance(step.optimizer, Optimizer) for step in program.events(OptimizerStep))
    )


def _is_free(program: Program, core: Value) -> bool:
    """No optimizer holds it. In meta-learning a copy has one, and the gradients of the other are written by hand."""
    optimizers = (event.optimizer for event in program.events(MakeOptimizer))
    return not any(_related(program, each, core) for each in optimizers)


def _related(program: Program, held: Optimizer, core: Value) -> bool:
    """The optimizer has parameters of this module, of a part of it, or of a whole that it is in."""
    return any(
        core in program.within(each) or not program.within(core).isdisjoint(program.within(each))
        for each in held.modules
        if each.is_model
    )


_ENOUGH = 2
"""Looks at the parameters that must have been taken."""
