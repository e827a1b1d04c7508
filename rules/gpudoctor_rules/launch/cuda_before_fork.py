"""CUDA is started in a process that then forks its workers.

## What goes wrong

A forked process is a copy of its parent, with the handle of a CUDA context that does not work in it. The first use of
the GPU in the worker ends with `RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with
multiprocessing, you must use the 'spawn' start method`. `multiprocessing.Process` forks on Linux (before Python 3.14)
unless another method is set; `mp.spawn` does not.

## Fix

`mp.set_start_method("spawn")` at the start of the program, or `mp.spawn`; or keep CUDA out of the parent:
`torch.cuda.is_available()` and `device_count()` do not start it. No automatic fix: with `spawn` the workers import the
program again and must be given all that they need.

## Silent when

The workers are spawned, or the method is not known; the parent touches no GPU before it starts them, or only on a path
that does not lead there; the workers use none.

## Sources

https://docs.pytorch.org/docs/stable/notes/multiprocessing.html, pytorch/pytorch#40403, pytorch/pytorch#1494.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.placement import ContextMade, DeviceUsed, Move
from gpudoctor.lint.events.process import Spawn
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import FORKED

CHOOSES = ("set_device", "move", "factory")


class CudaBeforeFork(Rule):
    code = "GPU406"
    severity = Severity.ERROR
    errors = FORKED
    stops = True
    needs = (Spawn,)

    def in_code(self, program: Program) -> Findings:
        if not program.has(Spawn):
            return
        if program.world is not LaunchWorld.SPAWN or not program.whole:
            return
        spawn = next((each for each in program.events(Spawn) if each.start_method == "fork"), None)
        if spawn is None:
            return
        touched = [each for each in program.events(ContextMade, DeviceUsed, Move) if _touches(each)]
        before = [each for each in touched if program.by_one_process(each) and each.order < spawn.order]
        started = next((each for each in before if spawn.condition.implies(each.condition)), None)
        used = next((each for each in touched if not program.by_one_process(each)), None)
        if started is None or used is None:
            return
        yield self.found(
            started.location,
            "CUDA is started here, in the process that then forks the workers: their first use of a GPU ends with "
            "`Cannot re-initialize CUDA in forked subprocess`.",
            remedy=_remedy(spawn),
            because=[("the workers are forked here", spawn.location), ("and use a GPU here", used.location)],
        )


def _remedy(spawn: Spawn) -> str:
    # It can do nothing but fork.
    if spawn.by == "notebook_launcher":
        return "Use GPUs in the function that is launched only, and restart the notebook's kernel first."
    return 'Call `torch.multiprocessing.set_start_method("spawn")` first, or keep CUDA out of this process.'


def _touches(event: Event) -> bool:
    """It starts CUDA in the process that does it."""
    if isinstance(event, Move):
        return event.to_gpu
    if isinstance(event, DeviceUsed):
        certain = event.device.is_cuda and event.certain
        return certain and event.purpose in CHOOSES
    return isinstance(event, ContextMade)
