"""Layers of a model are frozen or unfrozen after it was wrapped.

## What goes wrong

`DistributedDataParallel` registers the parameters that take a gradient when it is made, and never again. Those that are
unfrozen later are in none of its buckets: silently, their gradients are not averaged, and the ranks drift apart. For
those that are frozen later it waits, and the second step after that ends with `RuntimeError: Expected to have finished
reduction in the prior iteration before starting a new one. This error indicates that your module has parameters that
were not used in producing loss.`

## Fix

Freeze before the wrap. To unfreeze layers later, wrap the bare model again after it; to freeze some, wrap again or give
`find_unused_parameters=True`. No automatic fix.

## Silent when

The whole model is switched off and on, as in the steps of a GAN; the flag is set back before the wrapper is trained
again; the model is wrapped again after it; layers are frozen that were frozen before; `find_unused_parameters=True`
or apex's wrapper, where layers are frozen; what is frozen is not known to be a part of the model.

## Sources

VinAIResearch/XPhoneBERT#7, https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.model import Forward, GradientFlag, PartAdded, Wrap
from gpudoctor.lint.questions.asked_in_tests import asks_about, asks_for_parameters
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import CrashText, DriftText, Findings, Program, Rule
from gpudoctor_rules._error_texts import UNUSED
from gpudoctor_rules.wrap._later import before_wrap, ddp_around, how_to_search, trained_after

_REMEDY = "Set `requires_grad` before the model is wrapped, or wrap it again."


class GradFlagChangedAfterWrap(Rule):
    code = "GPU114"
    severity = Severity.ERROR
    errors = UNUSED
    shows_when = ("distributed", "ended_well")
    needs = (GradientFlag,)
    crash = CrashText(
        "Expected to have finished reduction in the prior iteration",
        because="a parameter that was wrapped as trainable is not trained any more",
        remedy=_REMEDY,
        # Which parameters lack a gradient, and since when, the error does not say.
        when="suspected or frozen_in_wrapper",
    )
    drift = DriftText("the wrapper does not average what was not trainable when it was made", _REMEDY)

    def in_code(self, program: Program) -> Findings:
        for flag in program.events(GradientFlag):
            wrap = ddp_around(program, flag.module, flag) if flag.on is not None else None
            if wrap is None:
                continue
            # Freezing for an evaluation or at the end of a program does no harm.
            call = trained_after(program, wrap, flag)
            harm = _harm(program, flag, wrap, call) if call is not None else ""
            if not harm:
                continue
            change = "are unfrozen" if flag.on else "are frozen"
            yield self.found(
                flag.location,
                f"Parameters of {name_of(flag.module)} {change} after the wrap: {harm}",
                remedy=_remedy(program, wrap, flag),
                because=[("wrapped here", wrap.location)],
                # One loop over the parts goes through the weights and the biases of its layers.
                cause=flag.loops[-1].location if flag.module.core.part_of is not None and flag.loops else None,
                by=flag,
            )


def _remedy(program: Program, wrap: Wrap, flag: GradientFlag) -> str:
    search = how_to_search(program, wrap)
    if wrap.handed_to is None:
        return "Wrap the bare model again right after this, or freeze before the wrap." + (
            "" if flag.on else f" Or {search}."
        )
    # Nobody wraps it once more.
    if flag.on:
        return f"Freeze them after the wrap only, and {search}."
    return f"Freeze {before_wrap(program, wrap) or 'before the wrap'}. Or {search}."


def _harm(program: Program, flag: GradientFlag, wrap: Wrap, call: Forward) -> str:
    """What comes of it at the next training forward; an empty text where nothing surely does."""
    if _set_back(program, flag, call) or _joined_later(program, flag, wrap):
        return ""
    # Modules that freeze their backbone in `train()` say so again and again.
    was_frozen = _frozen(program, flag, wrap.order)
    # Their buckets were never made; nothing fails, which is worse.
    if flag.on:
        return "nothing averages their gradients, and the ranks drift apart." if was_frozen else ""
    # A search finds them in each step, and a static graph was recorded in the first one.
    looks = wrap.find_unused is not False or wrap.static is not False
    if was_frozen or looks or wrap.opaque or not _only_a_part(program, flag, wrap):
        return ""
    return "the wrapper still waits for their gradients, and the second step ends with a `RuntimeError`."


def _only_a_part(program: Program, flag: GradientFlag, wrap: Wrap) -> bool:
    """Other parameters of the model go on learning: one that is frozen as a whole has nothing to wait for."""
    core = flag.module.core
    if core.part_of is not None:
        tested = any(asks_about(literal, core) for literal in flag.condition)
        return tested or core.part_of != wrap.inner.core
    if core != wrap.inner.core:
        whole = [
            each
            for each in program.events(GradientFlag)
            if wrap.order < each.order < flag.order and each.module.core == wrap.inner.core
        ]
        return not whole or whole[-1].on is True
    return any(map(asks_for_parameters, flag.condition))


def _frozen(program: Program, flag: GradientFlag, order: int) -> bool:
    """The layers that the flag is about were frozen at a moment of the program, or some of them, where it frees all."""
    core, before = flag.module.core, [each for each in program.events(GradientFlag) if each.order < order]
    # Of a model that is frozen but for some layers it is not known whether these are among them.
    earlier = [each for each in before if core in program.within(each.module)]
    if earlier:
        return earlier[-1].on is False
    parts = {each.module.core: each.on for each in before if each.module.core in program.within(core)}
    return flag.on is True and False in parts.values()


def _joined_later(program: Program, flag: GradientFlag, wrap: Wrap) -> bool:
    """The layers were put into the model after the wrap, which knows nothing of them: that is GPU115."""
    core = flag.module.core
    return any(
        added.order > wrap.order and core in program.within(added.part) and added.part != added.parent
        for added in program.events(PartAdded)
    )


def _set_back(program: Program, flag: GradientFlag, call: Forward) -> bool:
    """The flag is set to the contrary, or to what is not known, before the model is trained again."""
    # `requires_grad(model, False)` before the step of the other network, and True after it.
    core = flag.module.core
    return any(
        flag.order < each.order < call.order
        and each.on is not flag.on
        and (core in program.within(each.module) or each.module.core in program.within(core))
        for each in program.events(GradientFlag)
    )
