"""Libraries that run a function of the program: searches over settings, and what measures a call."""

from __future__ import annotations

from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.container import items_held
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Unknown, Values, single_of
from gpudoctor.lint.interface.contents import known_items, pairs
from gpudoctor.lint.interface.library_call import MODELS, Call, singleton
from gpudoctor.manifest.effects import CallEffect

STUDIES = ("optuna.create_study.optimize", "optuna.load_study.optimize", "optuna.study.create_study.optimize")


@MODELS.callable(*STUDIES)
def _optimize(call: Call) -> Values:
    """`study.optimize(objective, n_trials=20)`: what a trial suggests is chosen by the study."""
    function = call.arg(0, "func")
    trial = singleton(
        Unknown(Anonymous("trial", call.allocation_site()), "a trial of optuna", "trial", escaped_from="optuna.Trial")
    )
    if function is not None:
        call.do.call(function, Arguments((trial,)), call.node)
    return singleton(NONE)


@MODELS.callable("memory_profiler.memory_usage")
def _memory_usage(call: Call) -> Values:
    """`memory_usage((train, (model,), {"epochs": 3}))` measures one call."""
    parts = items_held(call.arg(0, "proc"))
    if parts:
        args = known_items(call.do, parts[1].single) if len(parts) > 1 and parts[1].single is not None else ()
        entries = pairs(call.do, parts[2].single) if len(parts) > 2 and parts[2].single is not None else ()
        keywords = {str(getattr(key.single, "value", "")): value for key, value in entries or ()}
        call.do.call(parts[0], Arguments(tuple(args or ()), keywords), call.node)
    return singleton(call.result("numbers", fresh=True))


@MODELS.effect(CallEffect)
def _calls(call: Call, effect: CallEffect) -> Values:
    function, result = call.given(effect.function), singleton(call.result(fresh=True))
    if function is None:
        return result
    arguments = Arguments(_handed_on(call, effect), _named(call, effect))
    if effect.here:
        call.do.call(function, arguments, call.node)
        return result
    if effect.at_any_time:
        call.do.launch.run_at_any_time(function, arguments, call.node)
    if effect.at_end:
        call.do.launch.run_at_end(function, arguments, call.node)
    else:
        call.do.launch.run_beside(function, arguments, call.node)
    return result


def _handed_on(call: Call, effect: CallEffect) -> tuple[Values, ...]:
    given = call.given(effect.args) if effect.args else None
    items = known_items(call.do, single_of(given))
    behind = call.args[call.position(effect.function) + 1 :] if effect.hands_on else ()
    own = (Anonymous("argument", (call.allocation_site(), number)) for number in range(effect.brings))
    return (*(singleton(Unknown(each, f"what {call.name} gives")) for each in own), *(items or ()), *behind)


def _named(call: Call, effect: CallEffect) -> dict[str, Values]:
    if effect.hands_on:
        return {name: values for name, values in call.keywords.items() if name != effect.function}
    given = call.given(effect.keywords) if effect.keywords else None
    entries = pairs(call.do, given.single) if given is not None else None
    return {str(key.single.value): values for key, values in entries or () if isinstance(key.single, Const)}


@MODELS.decorator("atexit.register")
def _at_end(call: Call) -> Values:
    call.do.launch.run_at_end(call.args[0], NO_ARGUMENTS, call.node)
    return call.args[0]
