"""`fully_shard` is given what it refuses: a bare list of layers, or a parameter without a dimension.

## What goes wrong

`fully_shard` (FSDP2) gathers the parameters of a module when that is called, and cuts each one along its first
dimension. A `ModuleList` or `ModuleDict` is never called, since the model loops over its layers: `ValueError:
fully_shard does not support containers that do not implement forward`. A parameter that is a single number has no
dimension to cut: `ValueError: fully_shard doesn't support scalar parameters. Change scale to a 1D tensor with numel
equal to 1.` Either ends the program on all ranks. Accelerate, told to shard so (`fsdp_version=2`), refuses to prepare a
model without its optimizer, whose parameters it has to exchange, and more than one model.

## Fix

Shard the layers one by one, `for layer in model.layers: fully_shard(layer)`, and the model itself after them; make the
parameter of one dimension, `nn.Parameter(torch.ones(1))`. Unsafe, because checkpoints with that parameter have it
without. With Accelerate, one call for both: `model, optimizer = accelerator.prepare(model, optimizer)`.

## Silent when

The container is of a class of the project with a `forward`; a call before has taken the part with the parameter; the
error is caught.

## Sources

https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html; run on two CPU ranks with torch 2.13;
`Accelerator.prepare` of Accelerate 1.15.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Safety, Severity
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.events.model import ShardingRefused, Wrap
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Either, Fresh, Repair, Replace, Source, Under
from gpudoctor.rule import CrashText, Findings, Program, Rule

_SAID = {
    "container": "",
    "scalar parameter": "",
    "no optimizer": "no model without its optimizer, whose parameters it exchanges: this ends in `ValueError: When "
    "using FSDP2, a model and optimizer must be passed together to Accelerator.prepare()`.",
    "several models": "one model alone: this ends in `ValueError: Only one model is supported when using FSDP2`.",
}
"""Why a module is refused, and where Accelerate refuses it, what it takes instead."""


class ShardsAContainer(Rule):
    code = "GPU932"
    severity = Severity.ERROR
    errors = (
        "ValueError: fully_shard does not support containers that do not implement forward",
        "ValueError: fully_shard doesn't support scalar parameters. Change scale to a 1D tensor with numel equal to 1.",
        "ValueError: Only one model is supported when using FSDP2",
    )
    fix_safety = Safety.UNSAFE
    shows_when = ("ranks.optimizers.sharded",)
    needs = (ShardingRefused,)
    crash = (
        CrashText(
            "fully_shard does not support containers",
            remedy="Shard the layers one by one, and the model itself after them.",
        ),
        CrashText(
            "fully_shard doesn't support scalar parameters",
            remedy="Make the parameter of one dimension, with one number in it.",
        ),
    )

    def in_code(self, program: Program) -> Findings:
        for event in program.events(ShardingRefused):
            if event.why not in _SAID or program.is_caught(event, "ValueError"):
                continue
            if _SAID[event.why]:
                yield self.found(
                    event.location,
                    f"Accelerate shards {name_of(event.module)} by `fully_shard` here, and takes {_SAID[event.why]}",
                    remedy="Pass one model and its optimizer to one call: `model, optimizer = "
                    "accelerator.prepare(model, optimizer)`.",
                )
                continue
            scalar = event.part
            others = any(isinstance(each, Wrap) and each.inner != event.module for each in program.at(event.location))
            yield self._scalar(event, scalar) if scalar is not None else self._container(event, alone=not others)

    def _container(self, event: ShardingRefused, alone: bool) -> Finding:
        keyed = event.module.made_by.endswith("Dict")
        layers = (Source(event.location, "0"), ".values()") if keyed else (Source(event.location, "0"),)
        layer = Either(tuple((Fresh(name, event.location),) for name in ("layer", "part", "block")))
        one_by_one = Repair(
            "Shard the layers one by one",
            (Under(event.location, ("for ", layer, " in ", *layers, ":")), Replace(event.location, (layer,), part="0")),
        )
        return self.found(
            event.location,
            f"{name_of(event.module)} is a container of layers that is never called, and `fully_shard` refuses it: "
            "this ends in a `ValueError`.",
            remedy="Shard the layers one by one, `for layer in ...: fully_shard(layer)`, and the model itself after "
            "them.",
            because=[("the container is made here", event.module.place)],
            repair=one_by_one if event.module.cls is None and alone else None,
        )

    def _scalar(self, event: ShardingRefused, scalar: Tensor) -> Finding:
        return self.found(
            scalar.place,
            f"{name_of(scalar, 'this parameter')} is a single number without a dimension, and `fully_shard` refuses "
            f"{name_of(event.module)} because of it: it ends in a `ValueError`.",
            remedy="Make it of one dimension, `nn.Parameter(torch.ones(1))`.",
            because=[("the module is sharded here", event.location)],
        )
