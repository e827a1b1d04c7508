"""The process group has a backend that is not made for the device of the model.

## What goes wrong

NCCL works on GPUs only, gloo is made for the CPU. With gloo the gradients of a model on the GPU go down to the CPU's
memory, through sockets, and up again in each step, where NCCL takes the fast links between the GPUs: training works,
several times slower. With NCCL a model that stays on the CPU does not train at all: `RuntimeError: No backend type
associated with device type cpu`, or, on a machine without a GPU, `Distributed package doesn't have NCCL built in` or
`ProcessGroupNCCL is only supported with GPUs, no GPUs found!`.

## Fix

`init_process_group("nccl")` for models on GPUs; where the program also trains on the CPU, choose the backend with the
device: `"nccl" if device.type == "cuda" else "gloo"`. Without any backend PyTorch takes both, one for each device. No
automatic fix.

## Silent when

The backend is an option, or is chosen by a test; the group is another one than the default; where the model lies is not
known; a framework makes the group. A model that never leaves the CPU under NCCL is the matter of `wrap-before-move`.

## Sources

https://docs.pytorch.org/docs/stable/distributed.html#which-backend-to-use, fideus-labs/KonfAI#200.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import SOME_PATHS, CrashText, Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import NO_BACKEND


class BackendForOtherDevice(Rule):
    code = "GPU407"
    severity = Severity.WARNING
    errors = NO_BACKEND
    shows_when = ("ended_well",)
    needs = (Wrap, Collective)
    crash = CrashText(
        "NCCL",
        also="built in",
        remedy="Choose the backend by the device: `nccl` where there are GPUs, `gloo` on a CPU.",
    )

    def in_code(self, program: Program) -> Findings:
        groups = list(program.events(InitGroup))
        # With a group for each case of a test, which one a model meets is not told.
        if program.managed_by or program.plays_alone or len({group.location for group in groups}) != 1:
            return
        group = groups[0]
        for wrap in program.events(Wrap):
            if not wrap.averages or group.condition.excludes(wrap.condition):
                continue
            if isinstance(wrap.wrapper, Wrapper) and wrap.wrapper.own_group:
                continue
            if group.only_backend == "gloo" and wrap.model_on_gpu:
                because = ("the model on the GPU is wrapped here", wrap.location)
                yield self._slow(group, wrap.inner.core, because)
                return
            on_cpu = _case_on_cpu(program, group, wrap)
            if group.only_backend == "nccl" and on_cpu is not None:
                yield self._fails(group, wrap, on_cpu)
                return
        by_hand = _reduced_by_hand(program) if group.only_backend == "gloo" else None
        if by_hand is not None:
            model, event = by_hand
            yield self._slow(group, model, ("they are on a GPU, and are reduced here", event.location))

    def in_run(self, recording: Recording) -> Findings:
        over_gloo = next((each for rank in recording.ranks if rank.backend == "gloo" for each in rank.wraps), None)
        # Of several groups the code tells which one a model meets.
        if self.code in recording.suspected and over_gloo is not None and over_gloo.place is not None:
            device = next((each for each in over_gloo.devices if each.startswith("cuda")), None)
            if device is not None:
                yield self.found(
                    over_gloo.place,
                    f"`{over_gloo.model}` was on `{device}`, and gloo carried its gradients through the CPU's memory.",
                    remedy='Use `init_process_group("nccl")`.',
                )
        yield from super().in_run(recording)

    def _slow(self, group: InitGroup, model: Value, because: tuple[str, Location]) -> Finding:
        return self.found(
            group.location,
            f"gloo carries the gradients of {name_of(model)}, which is on a GPU, through the CPU's memory in every "
            "step: several times slower than NCCL between GPUs.",
            remedy='Use `init_process_group("nccl")`.',
            because=[because],
        )

    def _fails(self, group: InitGroup, wrap: Wrap, case: Condition) -> Finding:
        return self.found(
            group.location,
            f"{name_of(wrap.inner.core)} stays on the CPU where {case!r}, and "
            "NCCL works on GPUs only: every rank then ends with an error.",
            remedy='Choose the backend with the device: `"nccl" if device.type == "cuda" else "gloo"`.',
            because=[("the model is wrapped here", wrap.location)],
            doubt=SOME_PATHS,
        )


def _case_on_cpu(program: Program, group: InitGroup, wrap: Wrap) -> Condition | None:
    """The case in which the model is on the CPU, of several in which it is somewhere: the program is made for both."""
    devices = wrap.model_device
    if devices is None or not devices.are(Device) or len(devices.bindings) < 2:
        return None
    # Of two models that may be wrapped here, each was moved only in the case in which it exists.
    if any(other.location == wrap.location and other.inner != wrap.inner for other in program.events(Wrap)):
        return None
    cases = [each.condition for each in devices.bindings if each.value.is_cpu]
    # What is on the CPU in every case is there by mistake.
    if len(cases) != 1 or not cases[0] or cases[0].divergence:
        return None
    # In that case there may be no group at all.
    if any(cases[0].excludes(each.condition) for each in (wrap, group)):
        return None
    return cases[0]


def _reduced_by_hand(program: Program) -> tuple[Value, Collective] | None:
    """A model that is on a GPU, and the collective that the program gives its gradients."""
    for event in program.events(Collective):
        owners = event.of_gradients
        parts = {part for owner in owners for part in program.within(owner)}
        calls = [each for each in program.events(Forward) if each.module.core in parts and each.order < event.order]
        if event.of_all_ranks and calls and all(each.on_gpu for each in calls):
            return owners[0], event
    return None
