"""A tensor on the CPU is passed to a collective of NCCL.

## What goes wrong

NCCL moves data between GPUs, and between nothing else. A tensor on the CPU ends the call on every rank (every process):
`RuntimeError: No backend type associated with device type cpu`, in older versions `Tensors must be CUDA and dense`. It
happens to numbers that were put into a tensor just for the reduction, and to indices that come from numpy.

## Fix

Make the tensor on the GPU, `device="cuda"`, or move it there; the result is then there as well. For data that should
stay on the CPU: `init_process_group("cpu:gloo,cuda:nccl")`, or a group with `backend="gloo"`. No automatic fix.

## Silent when

The backend is not certainly NCCL, or is PyTorch's default, which serves both; it is an option's, and that is not NCCL
by default, or nothing of the program goes to a GPU; a group of its own is named; it is not known where the tensor is;
objects are exchanged, which PyTorch moves itself.

## Sources

pytorch/pytorch#18998, WongKinYiu/yolov7#1191,
https://docs.pytorch.org/docs/stable/distributed.html#which-backend-to-use.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.placement import DeviceUsed, Move
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import NO_BACKEND


class CpuTensorWithNccl(Rule):
    code = "GPU510"
    severity = Severity.ERROR
    errors = (*NO_BACKEND, "RuntimeError: Tensors must be CUDA and dense")
    stops = True
    of_ranks = True
    needs = (Collective,)
    looks_at = ((Collective, "on_cpu"),)

    def in_code(self, program: Program) -> Findings:
        # The default backend and `cpu:gloo,cuda:nccl` serve both.
        made = _nccl_alone(program)
        if made is None:
            return
        for event in program.events(Collective):
            if not event.on_cpu or not event.of_all_ranks:
                continue
            # One is enough to end the call.
            tensor = event.on_cpu[0]
            yield self.found(
                at=event.location,
                message=f"{name_of(tensor, 'the tensor')} is on the CPU, and NCCL only works on GPUs: `{event.call}` "
                "ends with an error on every rank.",
                remedy='Move it to the GPU first, or choose `backend="cpu:gloo,cuda:nccl"`.',
                because=[
                    # The tensor is mostly made where nobody thinks of collectives.
                    ("the tensor is made here", tensor.place),
                    ("the backend is chosen here", made.location),
                ],
                cause=made.location,
                doubt="" if made.only_backend else "With another backend, such as gloo, nothing is wrong.",
                severity=None if made.only_backend else Severity.WARNING,
                by=event,
            )


def _nccl_alone(program: Program) -> InitGroup | None:
    """Where the process group is made, if its only backend is NCCL, surely or where the user names no other."""
    # A device mesh takes the group that is there.
    groups = [event for event in program.events(InitGroup) if event.is_own]
    backends = {event.backend_by(program.left_out) for event in groups}
    # Who names NCCL himself means GPUs.
    meant = all(event.only_backend for event in groups) or program.has(DeviceUsed, Move)
    return groups[0] if backends == {"nccl"} and meant else None
