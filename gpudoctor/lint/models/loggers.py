"""Experiment loggers."""

from __future__ import annotations

from gpudoctor.lint.flow.condition import Dependence
from gpudoctor.lint.models.api import MODELS, Call, one
from gpudoctor.lint.values.base import NONE, Const, Unknown, Values
from gpudoctor.lint.values.event import StartLogger

WRITERS = (
    "torch.utils.tensorboard.SummaryWriter", "tensorboardX.SummaryWriter", "wandb.init", "mlflow.start_run",
    "neptune.init", "neptune.init_run", "comet_ml.Experiment", "aim.Run", "swanlab.init", "clearml.Task.init",
)  # fmt: skip


@MODELS.callable(*WRITERS)
def _start(call: Call) -> Values:
    path = call.arg(0, "log_dir") or call.keywords.get("logdir") or call.keywords.get("dir")
    call.emit(StartLogger, call=call.name, path=path, shared=_is_meant_for_all(call))
    return one(Unknown(("logger", call.identity()), "an experiment logger", call.label, escaped_from=call.name))


def _is_meant_for_all(call: Call) -> bool:
    """A run group, a mode that depends on the rank, or a shared run: each rank is meant to open one."""
    if call.name != "wandb.init":
        return any(value.depends & Dependence.RANK for value in call.all_values())
    mode = call.keywords.get("mode")
    muted = mode is not None and (mode.only == Const("disabled") or any(b.when for b in mode.bindings))
    return muted or "group" in call.keywords or "settings" in call.keywords or any(
        value.depends & Dependence.RANK for value in call.all_values()
    )  # fmt: skip


@MODELS.callable("wandb.login", "wandb.config.update", "wandb.define_metric", "wandb.watch", "wandb.finish")
def _quiet(call: Call) -> Values:
    return one(NONE)
