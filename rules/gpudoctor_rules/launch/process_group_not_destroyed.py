"""The process group is made and never destroyed.

## What goes wrong

Since PyTorch 2.4 each rank of a job with NCCL ends with `WARNING: destroy_process_group() was not called before program
exit, which can leak resources`. Mostly it is only that. But a rank that exits while others still talk to it takes the
connection away, and then a job that has trained well ends in an error or hangs at its end, and its exit code is wrong.

## Fix

Call `torch.distributed.destroy_process_group()` where each rank has finished, in a `finally` if there is one. Safe:
nothing but collectives needs the group.

## Silent when

The program calls `destroy_process_group`, or may where lint did not get to; the backend is gloo, which says
nothing, or nothing is on a GPU; a framework makes the group; the program was not understood as a whole.

## Sources

pytorch/examples#1387, https://docs.pytorch.org/docs/stable/distributed.html#shutdown.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.events.placement import DeviceUsed, Move
from gpudoctor.lint.events.process import DestroyGroup, InitGroup
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.repair.repair import Always, AtEnd, Code, Either, Imported, Repair
from gpudoctor.rule import Findings, Program, Rule


class ProcessGroupNotDestroyed(Rule):
    code = "GPU402"
    severity = Severity.INFO
    errors = ("WARNING: destroy_process_group() was not called before program exit, which can leak resources.",)
    fix_safety = Safety.SAFE
    since_torch = "2.4"
    needs = (Backward, DestroyGroup, DeviceUsed, InitGroup, Move, OptimizerStep)

    def in_code(self, program: Program) -> Findings:
        # The word may stand in `atexit`, or on a way that was not followed.
        if program.has(DestroyGroup) or program.may_name("destroy_process_group"):
            return
        if not program.absence(to_the_end=True):
            return
        made = next((group for group in program.events(InitGroup) if _warns(program, group)), None)
        if made is None:
            return
        yield self.found(
            made.location,
            "This process group is never destroyed: each rank ends with a warning about leaked resources, and one that "
            "ends early can leave the others hanging.",
            remedy="Call `torch.distributed.destroy_process_group()` where each rank has finished.",
            because=[("called from here", call) for call in made.context.calls[-2:]],
            repair=_destroy(program, made),
        )


def _destroy(program: Program, made: InitGroup) -> Repair:
    """At the end of the function that leads to both the making of the group and the last step of the training."""
    steps = [*program.events(OptimizerStep, Backward)]
    last = steps[-1] if steps else made
    together = sum(one == other for one, other in zip(made.context.frames, last.context.frames, strict=False))
    places = (*made.context.calls, made.location)
    # The body of a class is a frame that no call has opened.
    way = places[min(max(together, 1), len(places)) - 1 :]
    destroy: Code = (Imported("torch.distributed.destroy_process_group"), "()")
    ask: Code = ("if ", Imported("torch.distributed.is_initialized"), "():\n\t", *destroy)
    line = Either(((*map(Always, way), *destroy), ask))
    return Repair("Destroy the process group at the end", (AtEnd(way[0], ((line,),)),))


def _warns(program: Program, group: InitGroup) -> bool:
    """Made by PyTorch's own function, and with NCCL: gloo needs no clean end."""
    # Where no backend is named NCCL serves what lies on a GPU, and a program may have nothing there.
    if group.only_backend != "nccl" and not program.has(DeviceUsed, Move):
        return False
    return group.is_own and group.only_backend != "gloo"
