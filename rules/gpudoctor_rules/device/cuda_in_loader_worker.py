"""A data set or a collate function uses the GPU in the workers of a loader.

## What goes wrong

Workers are forked from the training process, and CUDA does not survive a fork: the first batch ends with `RuntimeError:
Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start
method`. Many then set `num_workers=0`, and the GPU waits for every batch.

## Fix

Return CPU tensors, and move the batch in the training loop; with `pin_memory=True` and `non_blocking=True` the copy
overlaps with the computation. No automatic fix: it changes two places.

## Silent when

There are no workers, or how many is not known; they are started by another method than `fork`; the device is not known,
or chosen under a test; nothing was on the GPU before the first batch is asked for.

## Sources

pytorch/pytorch#77159, pytorch/pytorch#40403, pytorch/pytorch#1494, PattanaikL/GeoMol#8.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.placement import DeviceUsed, ItemOnGpu
from gpudoctor.lint.events.process import SetStartMethod
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import FORKED


class CudaInLoaderWorker(Rule):
    code = "GPU216"
    severity = Severity.ERROR
    errors = FORKED
    stops = True
    needs = (ItemOnGpu,)

    def in_code(self, program: Program) -> Findings:
        for event in program.events(ItemOnGpu):
            loader = event.loader
            # It surely has workers, started as they are by default.
            if not (loader.workers > 0 and loader.forks and not loader.managed):
                continue
            # What was set to `spawn` or by an option holds for loaders as well.
            if program.has(SetStartMethod) or not _used_before(program, event):
                continue
            yield self.found(
                event.location,
                f"The workers of {name_of(loader, 'the loader')} run this, and a forked process cannot use CUDA: the "
                "first batch ends with a `RuntimeError`.",
                remedy="Return CPU tensors, and move the batch in the training loop: `x = x.to(device, "
                "non_blocking=True)`, with `pin_memory=True` in the loader.",
                because=[("the loader is made here", loader.place)],
            )


def _used_before(program: Program, event: Event) -> bool:
    """The training process has something on the GPU already: only then the fork is one too many."""
    # Without CUDA in the parent each worker would open it for itself, which is slow, and works.
    return any(
        used.order < event.order
        and used.device.is_cuda
        and used.purpose in ("move", "set_device", "factory")
        and event.condition.implies(used.condition)
        for used in program.events(DeviceUsed)
    )
