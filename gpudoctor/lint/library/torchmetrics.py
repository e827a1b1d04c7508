"""torchmetrics: a metric gathers what all ranks have counted when it computes, so all of them must ask it."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import NO, MetricState
from gpudoctor.lint.domain.symbols import CallResult
from gpudoctor.lint.domain.value import Unknown, Values
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, singleton
from gpudoctor.lint.library.torch_distributed import group_exists
from gpudoctor.manifest.effects import CollectiveEffect
from gpudoctor.record import replace

METRIC = "torchmetrics.Metric"
TOLD = frozenset({"sync_on_compute", "dist_sync_on_step", "dist_sync_fn", "distributed_available_fn"})
"""Arguments with which a metric asks other ranks at other times, or none."""


@MODELS.callable("torchmetrics.*")
def _metric(call: Call) -> Values:
    of_a_class = call.name.rpartition(".")[2][:1].isupper()
    if not of_a_class or call.open_ended or TOLD & call.keywords.keys():
        return NOT_ANSWERED
    return call.unknown(CallResult(METRIC, call.allocation_site()), "a metric", escaped_from=METRIC)


@MODELS.callable(*(f"{METRIC}.{name}" for name in ("to", "cuda", "cpu", "train", "eval")))
def _itself(call: Call) -> Values:
    metric = call.receiver
    return singleton(replace(metric, escaped_from=METRIC)) if isinstance(metric, Unknown) else NOT_ANSWERED


@MODELS.callable(*(f"{METRIC}.{name}" for name in ("__call__", "forward", "update", "reset")))
def _changes(call: Call) -> Values:
    if isinstance(call.receiver, Unknown):
        call.do.set_flag(call.receiver, MetricState.computed, False)
    return NOT_ANSWERED


@MODELS.callable(f"{METRIC}.compute")
def _computes(call: Call) -> Values:
    metric = call.receiver
    # Without a group it asks nobody, and what was computed is kept until something comes to it.
    if not isinstance(metric, Unknown) or group_exists(call.do) is not True:
        return NOT_ANSWERED
    if call.do.flag(metric, MetricState.computed) is not NO:
        return NOT_ANSWERED
    call.do.set_flag(metric, MetricState.computed)
    made = Unknown(
        CallResult(f"{METRIC}.compute", call.allocation_site()), "values from all ranks", call.label,
        escaped_from=f"{METRIC}.compute", agreed=True,
    )  # fmt: skip
    effect = CollectiveEffect(gathers=True)
    call.emit(Collective, call=call.name, by="torchmetrics", effect=effect, returned=made)
    return singleton(made)
