"""A model trains in FP32 throughout, and the tensor cores of the GPU stay unused.

## What goes wrong

Since Volta, GPUs multiply FP16 matrices several times as fast as FP32 ones, and since Ampere `bfloat16` ones, too,
which need no gradient scaler. A program that never mentions a lower precision gets the slow kernels, keeps activations
of twice the size in memory, and moves twice the bytes. Nothing is wrong with its result. Small models and those that
wait for their data gain little.

## Fix

Put forward and loss, not the backward, under `with torch.autocast("cuda", dtype=torch.bfloat16):`. On GPUs before
Ampere take `torch.float16` and a `torch.amp.GradScaler`. Where 16 bits are too few,
`torch.set_float32_matmul_precision("high")` uses the tensor cores with TF32. No automatic fix: the numbers change a
little.

## Silent when

Code of the program that may run names a lower precision (`autocast`, `bfloat16`, `half`, `amp`, `tf32` ...); the model
is cast to some type; a framework runs the training, whose settings decide; the model is not known to be on a GPU.

## Sources

https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html,
https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.placement import Move
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.loop_rounds import training_loop
from gpudoctor.lint.questions.unseen_deeds import may_lower_precision
from gpudoctor.rule import Findings, Program, Rule


class NoMixedPrecision(Rule):
    code = "GPU803"
    severity = Severity.INFO
    needs = (Backward,)

    def in_code(self, program: Program) -> Findings:
        if not program.absence() or not program.has(Backward):
            return
        if any(move.dtype for move in program.events(Move)):
            return
        calls = list(_trained_on_gpu(program))
        if any("autocast" in call.context.contexts for call in calls):
            return
        if calls and not may_lower_precision(program):
            yield self.found(
                calls[0].location,
                "The model trains in FP32: the tensor cores of the GPU, made for FP16 and BF16, stay unused.",
                remedy='Put forward and loss under `with torch.autocast("cuda", dtype=torch.bfloat16):`.',
            )


def _trained_on_gpu(program: Program) -> Iterator[Forward]:
    """The module calls on a GPU that the gradients of a training loop flow through."""
    for backward in program.events(Backward):
        if training_loop(program, backward) is None:
            continue
        yield from (call for call in program.calls_in_graph(backward) if call.on_gpu)
