"""A tensor of one rank's GPU is pickled and sent to the other ranks, each of which unpickles it on that GPU.

## What goes wrong

A pickled tensor remembers where it was. When `all_gather_object` brings `cuda:3` of rank 3 to rank 0, rank 0 makes a
context on GPU 3 and puts the tensor there: each rank (each process, one for each GPU) takes some hundred megabytes on
every GPU of the node, and all that was gathered is on GPUs of others. It works until one of them has no room left
(`torch.OutOfMemoryError: CUDA out of memory` on a GPU that the rank does not train on), or until they are put together,
as with `torch.cat`, which takes no tensors of two GPUs. On several nodes, or where each process sees its own GPU alone,
tensors of several ranks land on one GPU. Each of them is copied to the CPU on the way anyway.

## Fix

Send it from the CPU, `dist.all_gather_object(parts, result.cpu())`, or send numbers. Tensors of one shape need no
pickle: `dist.all_gather(parts, result)`. No automatic fix, since what comes next may want the tensors on a GPU.

## Silent when

The tensor may be on the CPU; nothing in the program shows that it is on a GPU; one process alone pickles it; by hand,
as with `pickle.dumps`, what is pickled is not sent by a collective in the same function; a framework gathers it.

## Sources

https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.all_gather_object ("not well supported and
inefficient"), pytorch/pytorch#150798, pytorch/pytorch#76865.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.collective import Collective, Pickled
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import OUT_OF_MEMORY, TWO_DEVICES


class GpuTensorPickled(Rule):
    code = "GPU218"
    severity = Severity.WARNING
    errors = (*OUT_OF_MEMORY, *TWO_DEVICES)
    of_ranks = True
    needs = (Pickled,)

    def in_code(self, program: Program) -> Findings:
        if not program.presence():
            return
        for event in program.events(Pickled):
            sender = None if event.sent else _sent_by(program, event)
            if not event.sent and sender is None:
                continue
            # A helper that gathers objects is right: what it was given is not.
            place = event.location if event.sent or not event.context.calls else event.context.calls[-1]
            tensor = name_of(event.tensor, "a tensor")
            yield self.found(
                place,
                f"{tensor} is on a GPU when it is pickled: every rank that gets it puts it on that same GPU, where "
                "it takes memory beside the rank that trains there.",
                remedy="Send it from the CPU, with `.cpu()`, or send numbers; tensors of one shape need no pickle.",
                because=[
                    ("it is made here", event.tensor.place),
                    ("it is pickled here", event.location),
                    *([("and sent to all ranks", sender.location)] if sender is not None else []),
                ],
                doubt="" if event.sent else "Another process must read it.",
                cause=event.location if place != event.location else None,
            )


def _sent_by(program: Program, event: Pickled) -> Collective | None:
    """The collective of the same call of a function that sends what was pickled by hand."""
    frames = event.context.frames
    if len(frames) < 2:
        return None
    for each in program.events(Collective):
        sends = each.gathers or each.hands_on
        if sends and each.order > event.order and each.context.frames[: len(frames)] == frames:
            return each
    return None
