"""A variable for debugging is set for a training run, and slows it down.

## What goes wrong

`CUDA_LAUNCH_BLOCKING=1` makes the CPU wait for each kernel. `TORCH_DISTRIBUTED_DEBUG=DETAIL` compares each collective
among all ranks before it runs. `NCCL_P2P_DISABLE=1` and `NCCL_SHM_DISABLE=1` send what GPUs of a machine exchange over
slower paths. `PYTORCH_NO_CUDA_MEMORY_CACHING=1` asks the driver for each tensor. They help to find a fault, and cost up
to a multiple of the time when they stay. As advice the rule also names `NCCL_DEBUG=INFO`, which only writes much, and
variables that have another name since PyTorch 2.2, such as `NCCL_BLOCKING_WAIT`, and do nothing for newer ones.

## Fix

Remove the line. Unsafe: some machines need it, such as GPUs that cannot reach each other directly.

## Silent when

The value turns the check off; what is started is no training, or is started for looking at it: by the debugger of an
editor, or as one process where another command trains in several; `accelerate launch` starts it, which sets the
variables of NCCL itself where a GPU needs them.

## Sources

https://docs.pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications,
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html, pytorch/pytorch#104506.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.launchfiles.start import ProgramStart, StartedBy
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules.launch._starts import named

_ON = ("1", "true", "True", "TRUE", "ON", "on")
_SLOW: dict[str, tuple[tuple[str, ...], str]] = {
    "CUDA_LAUNCH_BLOCKING": (_ON, "the CPU waits for each kernel, and the GPU for the CPU"),
    "TORCH_DISTRIBUTED_DEBUG": (("DETAIL",), "the ranks compare each collective before they run it"),
    "NCCL_P2P_DISABLE": (_ON, "GPUs of a machine exchange gradients through the memory of the CPU"),
    "NCCL_SHM_DISABLE": (_ON, "processes of a machine exchange gradients over the network"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": (_ON, "each tensor asks the driver for its memory"),
    "NCCL_DEBUG": (("TRACE",), "NCCL writes a line for each call"),
}
_RENAMED = {
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_DESYNC_DEBUG": "TORCH_NCCL_DESYNC_DEBUG",
}


class DebugVariableLeftOn(Rule):
    code = "GPU432"
    severity = Severity.PERF
    fix_safety = Safety.UNSAFE

    def in_launch(self, launched: Launched) -> Findings:
        for file, launch in launched.launches:
            if not launched.is_training(file, launch) or launched.tries_out(file, launch):
                continue
            for name, bound in launch.environment.items():
                if bound.word.text is not None:
                    yield from self._of(launched, launch, name, bound.word.text)

    def _of(self, launched: Launched, launch: ProgramStart, name: str, value: str) -> Findings:
        bound = launch.environment[name]
        values, why = _SLOW.get(name, ((), ""))
        remove = launched.without_setting(name, bound, f"Remove `{name}`")
        if value in values and not (launch.launcher is StartedBy.ACCELERATE and name.startswith("NCCL_") and why):
            yield self.found(
                bound.at,
                f"`{name}={value}` is left on for {named(launch)}: {why}.",
                remedy="Remove it, unless this machine needs it.",
                fix=remove,
            )
        elif name == "NCCL_DEBUG" and value == "INFO":
            yield self.found(
                bound.at,
                "`NCCL_DEBUG=INFO` makes each rank write how it connects: the output of the training is lost in it.",
                remedy="Remove it, or write `NCCL_DEBUG=WARN`.",
                severity=Severity.INFO,
                fix=remove,
            )
        elif name in _RENAMED and _RENAMED[name] not in launch.environment:
            yield self.found(
                bound.at,
                f"`{name}` is called `{_RENAMED[name]}` since PyTorch 2.2: newer ones warn of the old name.",
                remedy=f"Write `{_RENAMED[name]}`.",
                severity=Severity.INFO,
            )
