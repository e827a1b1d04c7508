"""A switch that is meant for finding a bug is on while the model trains.

## What goes wrong

Anomaly detection checks the gradients of every operation for `nan` and keeps a stack trace of each forward call.
`CUDA_LAUNCH_BLOCKING=1` makes Python wait for each kernel, so that nothing is prepared ahead.
`TORCH_DISTRIBUTED_DEBUG=DETAIL` compares every collective over all ranks before it starts. `NCCL_P2P_DISABLE=1` and
`NCCL_IB_DISABLE=1` send what GPUs exchange over slower paths. `cudnn.enabled = False` takes slower kernels. Each of
them helped somebody for an hour, and costs speed for as long as it stays: the training runs, only slower.

## Fix

Remove the line, or put it behind an option. Unsafe where a machine needs the variable: some GPUs without NVLink hang
until `NCCL_P2P_DISABLE=1` is set.

## Silent when

The user switches it on, by an option or in the shell; only some batches run under it, or only a part of the program
that does not train; it is switched off again before; nothing trains. `NCCL_DEBUG=INFO` only prints.

## Sources

https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#disable-debugging-apis,
https://docs.pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications,
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-p2p-disable, pytorch/pytorch#23074.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.host_waits import DebugFlag
from gpudoctor.lint.events.process import EnvironmentWrite
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.repair.repair import Delete, Repair
from gpudoctor.record import dataclass
from gpudoctor.rule import Findings, Program, Recording, Rule

ANOMALY = "each backward checks all gradients for `nan`, and each operation keeps a stack trace"
COLLECTIVES = "every collective is first compared over all ranks"
EFFECTS = {
    ("anomaly", ""): ("Anomaly detection", ANOMALY),
    ("cudnn", ""): ("Training without cuDNN", "convolutions and recurrent layers run on PyTorch's own, slower kernels"),
    ("collectives", ""): ("The debug level DETAIL", COLLECTIVES),
    ("CUDA_LAUNCH_BLOCKING", "1"): ("", "Python waits for each kernel, and prepares nothing ahead"),
    ("TORCH_DISTRIBUTED_DEBUG", "DETAIL"): ("", COLLECTIVES),
    ("NCCL_P2P_DISABLE", "1"): ("", "what GPUs of a machine exchange goes through the memory of the host"),
    ("NCCL_IB_DISABLE", "1"): ("", "nodes talk over ordinary Ethernet instead of InfiniBand"),
}


@dataclass(frozen=True)
class Switch:
    """A flag or a variable, and what it is set to here; an empty `value` where a flag is on."""

    event: Event
    flag: str
    value: str

    @property
    def effect(self) -> tuple[str, str] | None:
        """What to call it, and what it does to the training; None where it does no harm."""
        found = EFFECTS.get((self.flag, self.value))
        return (found[0] or f"`{self.flag}={self.value}`", found[1]) if found is not None else None


class DebugFlagLeftOn(Rule):
    code = "GPU802"
    severity = Severity.PERF
    fix_safety = Safety.UNSAFE
    shows_when = ("trained",)
    needs = (DebugFlag, EnvironmentWrite)

    def in_code(self, program: Program) -> Findings:
        if not program.whole:
            return
        seen: set[Location] = set()
        switches = list(_switches(program))
        for switch in switches:
            # The first time says what training comes after it; behind the last round of a loop there is less.
            if switch.effect is None or switch.event.location in seen:
                continue
            seen.add(switch.event.location)
            if not _matters(program, switch) or not _trains_under(program, switch, switches):
                continue
            name, effect = switch.effect
            needed = switch.flag.startswith("NCCL_")
            yield self.found(
                switch.event.location,
                f"{name} is {'chosen here' if switch.flag == 'cudnn' else 'on while the model trains'}: {effect}.",
                remedy="Remove it; where a machine needs it, set it there."
                if needed
                else "Remove it, or put it behind an option such as `--debug`.",
                doubt="A few machines hang without it." if needed else "",
                repair=Repair("Remove it", (Delete(switch.event.location),)) if _alone(switches, switch) else None,
            )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            for each in rank.optimizers[:1]:
                if each.debug and each.place is not None:
                    yield self.found(
                        each.place,
                        f"Training ran with {' and '.join(f'`{name}`' for name in each.debug)} "
                        "switched on, which is for finding bugs and slows every step down.",
                        remedy="Switch it off for training, or on by an option of the program.",
                    )


def _alone(switches: list[Switch], switch: Switch) -> bool:
    """The statement sets nothing else."""
    return not any(
        each.event.location == switch.event.location and (each.flag, each.value) != (switch.flag, switch.value)
        for each in switches
    )


def _switches(program: Program) -> Iterator[Switch]:
    for event in program.events(DebugFlag, EnvironmentWrite):
        if isinstance(event, DebugFlag):
            yield Switch(event, event.flag, "" if event.on else "off")
        elif isinstance(event, EnvironmentWrite):
            only = event.value.single
            yield Switch(event, event.name, str(only.in_python) if only is not None and only.is_constant else "unknown")


def _matters(program: Program, switch: Switch) -> bool:
    """What slows exchanges matters only where processes exchange something."""
    alone = switch.flag in ("anomaly", "cudnn", "CUDA_LAUNCH_BLOCKING")
    return alone or program.launched_in_several


def _trains_under(program: Program, switch: Switch, switches: list[Switch]) -> bool:
    """Wherever the program trains, the switch is on."""
    backwards = [event for event in program.events(Backward) if event.order > switch.event.order]
    if not backwards:
        # Trainers of frameworks run the backward out of sight.
        return bool(program.managed_by) and not program.has(Backward) and not switch.event.condition
    later = [each for each in switches if each.flag == switch.flag and each.event.order > switch.event.order]
    if any(each.value != switch.value and each.event.order < backwards[0].order for each in later):
        return False
    # `if args.debug:` or `if step % 1000 == 0:` is no condition of all training.
    return all(backward.condition.implies(switch.event.condition) for backward in backwards)
