"""What was followed of a program, from its execution on paper and from the answers that its rules were given."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpudoctor.coverage import Cause, Coverage, Ending, Followed, Silence
from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.module import UNSEEN, Module
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.value import Unknown, Value
from gpudoctor.lint.events.data_loading import MakeLoader
from gpudoctor.lint.events.knowledge import Escape, ForwardSkipped, Stop
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.process import InitGroup, Spawn
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, TakeGradient
from gpudoctor.lint.program import Program
from gpudoctor.manifest.compiled import preparing
from gpudoctor.manifest.framework_roles import framework
from gpudoctor.record import replace
from gpudoctor.rule import RuleCard

_ABOUT_MODELS = frozenset({"Forward", "Move", "ModeChange", "UnusedPart", "ModuleClassFlaw"})
"""Events of a model that is known."""
_INSIDE = frozenset(
    {
        "Collective",
        "ConstantMixed",
        "Crossed",
        "FixedMet",
        "ForwardTalks",
        "ModuleClassFlaw",
        "ReplicaWrite",
        "UnusedPart",
    }
)
"""Events inside of its `forward`."""
_STARTING = frozenset(
    {"ArgumentDeclared", "ArgumentsParsed", "EnvironmentRead", "EnvironmentWrite", "InitGroup", "Spawn"}
)
"""Events of a script before it trains."""
_SETTINGS = "TrainingArguments"
_TRAINERS = ("Trainer", "Runner", _SETTINGS, "LightningCLI", "Engine", "build_runner", "Learner")


def coverage_of(
    program: Program, silenced: Mapping[str, Silence], unasked: Sequence[RuleCard], quiet: Sequence[RuleCard]
) -> Coverage:
    """What was followed of a program. `silenced` are the rules that a last answer made silent, `unasked` those of which
    nothing happened that they are about, and `quiet` the others that found nothing."""
    from gpudoctor.lint.questions.loop_rounds import training_loops

    # Whoever runs tests trains nothing by it.
    main = _not_reached(program) if not program.only_tests else None
    told = [] if main is None else [main]
    if main is not None:
        also = tuple(code for code, answer in silenced.items() if answer.cause is main.cause)
        about = tuple(card.code for card in unasked if _is_of_training(card, main))
        # What it leads to was followed, if with unknown arguments.
        about = about if program.has_entry or main.what or main.about else ()
        told = [_with_rules(main, (*about, *also))]
        silenced = {code: answer for code, answer in silenced.items() if code not in also}
    told += _grouped(program, silenced)
    told += _of_models(program, unasked, quiet)
    # What a finding says already is not said again.
    ended = program.ended if program.has_entry and program.trained_at and main is None else None
    if ended is not None and not ended.error_told:
        told.append(Silence(Cause.ENDED, (), ended.what, ended.at))
    if program.limits and not any(each.cause is Cause.LIMIT for each in told):
        told.insert(0, _limit(program))
    weight = _weight(program, main)
    # That a cell cannot be read is told, and where nothing trains there is nothing to be told besides.
    if not weight and program.limits and all(each.why in program.gaps for each in program.limits):
        told = [each for each in told if each.cause is not Cause.LIMIT]
    return Coverage(
        path=program.entry,
        world=program.world.value if program.has_entry else "",
        followed=_followed(program, main, told),
        training_loops=training_loops(program),
        ended_by=_ending(program),
        silent_for=tuple(told),
        trains_at=program.trained_at,
        weight=weight,
        awaits=tuple(sorted({each.at.path for each in program.untaken})) if program.has_entry else (),
        idle=tuple(Silence(Cause.NO_ENTRY, (), each.what, each.at, missed=True) for each in program.idle),
    )


def _of_models(program: Program, unasked: Sequence[RuleCard], quiet: Sequence[RuleCard]) -> Iterator[Silence]:
    """What could not be said of a model: nobody knows which one it is, or its `forward` was not followed."""
    if not program.has_entry:
        return
    skipped = next(program.events(ForwardSkipped), None) if program.trained_at else None
    asked = _of_unknown_model(program)
    if asked is None and skipped is None:
        return
    # What a rule finds beside models it has not found in this one.
    happens = _INSIDE if program.world.several_processes else _INSIDE - {"Collective"}
    inside = {card.code for card in (*quiet, *unasked) if card.needs and happens.issuperset(card.needs)}
    unseen = happens - {"Collective"} - program.happened.keys()
    inside |= {card.code for card in (*quiet, *unasked) if not unseen.isdisjoint(card.needs)}
    if asked is not None:
        about = {card.code for card in unasked if not _ABOUT_MODELS.isdisjoint(card.needs)}
        about |= {card.code for card in quiet if card.needs == ("Forward",)}
        yield _with_rules(Silence(Cause.UNKNOWN_MODEL, (), "a model", asked), about | inside)
        return
    if skipped is not None:
        label = skipped.module.cls.label if skipped.module.cls is not None else "a model"
        silence = Silence(Cause.UNKNOWN_MODEL, (), "its forward", skipped.location, about=label)
        yield _with_rules(silence, inside)


def _weight(program: Program, main: Silence | None) -> int:
    trains = bool(program.trained_at) or (main is not None and main.missed)
    if not program.has_entry:
        return -1 if program.only_tests else int(trains)
    several = program.has(Spawn, InitGroup) or any(wrap.handed_to is None for wrap in program.events(Wrap))
    return 3 if several else 2 if trains else 0


def _is_of_training(card: RuleCard, main: Silence) -> bool:
    """The rule may have something to say of the training that was not reached."""
    # Where a framework runs it, how the ranks are started was followed.
    if main.cause is Cause.FRAMEWORK:
        return not _STARTING.issuperset(card.needs)
    # Whoever wraps a model need not train it.
    return main.cause is not Cause.NO_ENTRY or not main.about


def _followed(program: Program, main: Silence | None, told: list[Silence]) -> Followed:
    if main is not None and main.missed and program.has_entry:
        return Followed.NOT
    return Followed.PARTLY if told or program.stops or not program.has_entry else Followed.WHOLE


def _ending(program: Program) -> Ending | None:
    if program.limits:
        return Ending(program.limits[0].why, program.limits[0].location)
    return Ending(program.ended.told, program.ended.at) if program.ended is not None else None


def _not_reached(program: Program) -> Silence | None:
    """Why the training of a program was not seen; None where it was, or where there is none by all that is known."""
    if not program.has_entry:
        missed = program.untaken[0] if program.untaken else None
        if missed is not None:
            return Silence(Cause.NO_ENTRY, (), missed.what, missed.at, missed=True)
        # It starts what trains in another file.
        if program.trained_at:
            return Silence(Cause.NO_ENTRY, (), "", program.trained_at[0], missed=True)
        wrap = _wraps_here(program)
        return Silence(Cause.NO_ENTRY, (), "", wrap.at, missed=True, about=wrap.what) if wrap is not None else None
    if program.trained_at:
        return None
    missed = program.untaken[0] if program.untaken else None
    if program.stops:
        return _limit(program)
    # Who makes a loader or starts ranks means to train, wherever that stands.
    means_to = missed is not None or program.has(Spawn, InitGroup, Wrap, MakeLoader, MakeOptimizer)
    if program.ended is not None and means_to:
        return Silence(
            Cause.ENDED, (), program.ended.what, program.ended.at, missed=True, about=program.ended.error_told
        )
    running = [event for event in program.in_charge if event.trains or _runs_the_training(event.call)]
    if running:
        # The settings of a trainer are made before it is.
        trainer = next((event for event in running if not event.call.endswith(_SETTINGS)), running[0])
        return Silence(Cause.FRAMEWORK, (), _name(trainer.framework), trainer.location, missed=True)
    end = program.ends_before
    if end is not None:
        return Silence(Cause.ENDED, (), end.what, end.at, missed=True, about=end.error_told, beside=True)
    chosen = program.leads_there
    if chosen is not None:
        return Silence(Cause.UNREAD, (), chosen.by, chosen.at, missed=True, about=chosen.what)
    into = _takes_optimizer(program)
    # What trains is given the model, too; a schedule takes the optimizer alone.
    if missed is not None and (into is None or not into.given_model):
        return Silence(Cause.NOT_CALLED, (), missed.what, missed.at, missed=True)
    # Imported late, as above.
    from gpudoctor.lint.events.knowledge import Escape

    stranger = next((each for each in program.events(Escape) if _trains_unread(program, each)), None)
    if stranger is not None and missed is None:
        lacking = ", of a module that the project lacks," if _has_package(program, stranger.into) else ""
        return Silence(Cause.FRAMEWORK, (), f"`{stranger.into}`{lacking}", stranger.location, missed=True)
    if into is not None:
        return Silence(Cause.UNREAD, (), into.into, into.location, missed=True)
    unknown = _called_when_prepared(program)
    return Silence(Cause.UNREAD, (), "", unknown.location, missed=True, about=unknown.into) if unknown else None


def _called_when_prepared(program: Program) -> Escape | None:
    """The first call of something unknown by the script itself, behind all that it prepares for several ranks with data
    to go through, where no model was ever called: who evaluates calls one."""
    # Imported late, as above.
    from gpudoctor.lint.events.knowledge import Escape

    loaders = program.happened.get("MakeLoader")
    if not loaders or "InitGroup" not in program.happened or "Forward" in program.happened:
        return None
    calls = (each for each in program.events(Escape) if each.of_no_library and each.order > loaders[-1].order)
    return next((each for each in calls if each.location.path == program.entry), None)


def _runs_the_training(call: str) -> bool:
    """`Trainer(…)`, `Runner.from_cfg(…)`."""
    return any(part.endswith(_TRAINERS) for part in call.split("."))


def _trains_unread(program: Program, event: Escape) -> bool:
    """`registry.get_trainer_class(...)(...)`, `train_detector(model, ...)` of a library of which nothing is known."""
    return event.trains and "." in event.into and event.into.partition(".")[0] in program.strangers


def _has_package(program: Program, name: str) -> bool:
    """Other modules of the package that it is named by were read."""
    return any(f"/{name.partition('.')[0]}/" in f"/{path}" for path in program.files)


def _limit(program: Program) -> Silence:
    stop = program.limits[0]
    missed = bool(program.untaken) and not program.trained_at
    after = ", after the first training step" if program.trained_at and program.has_entry else ""
    number = re.match(r"more than (\d+)(.*)", stop.why)
    how = f"after {int(number[1]):,}{number[2]}" if number else f"({stop.why})"
    if stop is program.limit_with_all:
        there = " to its training" if program.trained_at else ""
        after = f", and followed{there} with the defaults of its options"
    return Silence(Cause.LIMIT, (), f"{how}{after}", stop.location, missed=missed)


def _grouped(program: Program, silenced: Mapping[str, Silence]) -> list[Silence]:
    """The rules that were silent for the same cause, together."""
    groups: dict[Silence, list[str]] = {}
    for code, answer in silenced.items():
        groups.setdefault(_in_full(program, answer), []).append(code)
    return [_with_rules(silence, codes) for silence, codes in groups.items()]


def _in_full(program: Program, answer: Silence) -> Silence:
    match answer.cause:
        case Cause.LIMIT:
            return _limit(program)
        case Cause.FRAMEWORK:
            # Imported late, as above.
            from gpudoctor.lint.events.option_defaults import as_chosen

            charged = program.in_charge
            # Who adds a framework's options hands over the training later.
            own = [each for each in charged if each.call not in preparing()] or charged
            # The settings of a trainer are made before it is.
            event = next((each for each in own if not each.call.endswith(_SETTINGS)), own[0])
            chosen = as_chosen(event.condition, program.options)
            return replace(answer, what=_name(event.framework), at=event.location, about=chosen)
    return answer


def _name(name: str) -> str:
    return framework(name).title or name


def _with_rules(silence: Silence, codes: Iterable[str]) -> Silence:
    return replace(silence, rules=tuple(sorted(set(codes))))


def _of_unknown_model(program: Program) -> Location | None:
    """Where gradients are asked for, if no call of a model is known that they may come from."""
    backward = tuple(program.events(Backward))
    known = any(_is_known(each.module.core) for each in program.events(Forward))
    # Whoever trains bare parameters calls no model, and all that the loss comes from is known.
    known = known or program.has(TakeGradient) or all(map(_of_bare_parameters, backward))
    return backward[0].location if backward and not known else None


def _is_known(model: Value) -> bool:
    if isinstance(model, Module):
        return model.made_by != UNSEEN
    return not isinstance(model, Unknown)


def _of_bare_parameters(backward: Backward) -> bool:
    # A loss without a graph of data alone has got its graph from what was not read.
    return backward.complete and not backward.forwards and backward.loss.graph is True


def _wraps_here(program: Program) -> Stop | None:
    """Where its own file makes a wrapper that averages gradients, and the kind of it."""
    here = (each for each in program.events(Wrap) if each.kind.synchronises and each.location.path == program.entry)
    return next((Stop(each.kind.value, each.location) for each in here), None)


def _takes_optimizer(program: Program) -> Escape | None:
    """The last code that was not read and was given an optimizer, as what trains is: schedulers come before it."""
    given = [each for each in program.events(Escape) if any(isinstance(value, Optimizer) for value in each.values)]
    return given[-1] if given else None
