"""Experiment loggers."""

from __future__ import annotations

from gpudoctor.lint.domain.symbols import CallResult
from gpudoctor.lint.domain.value import NONE, Const, Unknown, Values
from gpudoctor.lint.events.reporting import StartLogger
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.library_call import MODELS, Call, singleton

WRITERS = (
    "torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter", "wandb.init", "mlflow.start_run",
    "neptune.init", "neptune.init_run", "comet_ml.Experiment", "aim.Run", "swanlab.init", "clearml.Task.init",
)  # fmt: skip


@MODELS.callable(*WRITERS)
def _start(call: Call) -> Values:
    path = call.arg(0, "log_dir") or call.keywords.get("logdir") or call.keywords.get("dir")
    call.emit(StartLogger, call=call.name, path=path, shared=_is_meant_for_all(call))
    return singleton(
        Unknown(
            CallResult(call.name, call.allocation_site()), "an experiment logger", call.label, escaped_from=call.name
        )
    )


def _is_meant_for_all(call: Call) -> bool:
    """A run group, a mode that depends on the rank, or a shared run: each rank is meant to open one."""
    if call.name != "wandb.init":
        return any(value.divergence & Divergence.RANK for value in call.all_values())
    mode = call.keywords.get("mode")
    muted = mode is not None and (mode.single == Const("disabled") or any(b.condition for b in mode.bindings))
    return muted or "group" in call.keywords or "settings" in call.keywords or any(
        value.divergence & Divergence.RANK for value in call.all_values()
    )  # fmt: skip


@MODELS.callable("wandb.login", "wandb.config.update", "wandb.define_metric", "wandb.watch", "wandb.finish")
def _quiet(call: Call) -> Values:
    return singleton(NONE)
