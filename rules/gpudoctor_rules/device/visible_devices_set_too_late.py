"""`CUDA_VISIBLE_DEVICES` is set after the program has asked for the GPUs.

## What goes wrong

The driver reads `CUDA_VISIBLE_DEVICES` once, when it is asked for the first time, and `torch.cuda.is_available()` asks
it. What is written later is silently ignored: the program trains on other GPUs than it was told to, all processes
perhaps on the same one, and collides with other people's jobs there.

## Fix

Set it at the very top, before `import torch`, or where the program is started: `CUDA_VISIBLE_DEVICES=2,3 python
train.py`. No automatic fix, because what is asked before may decide the value.

## Silent when

The GPUs were asked for on another path, or in another process; processes that train, or a server beside the training,
are started after it; nothing uses a GPU afterwards; it was set in time and is set again; it is put back as it was; it
is `"0"`, and only that GPU is used; a GPU is used by the number that stands in it, and would be another one if it came
in time; each of several ranks has taken a GPU by its number before, and the value is an option for one process.
`torch.cuda.device_count()` and seeds do not count: they leave the driver alone.

## Sources

pytorch/pytorch#9158, pytorch/pytorch#23544, pytorch/pytorch#40618, pytorch/pytorch#80876,
open-mmlab/mmdetection3d#1020, NVIDIA/DALI#2014.
"""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.rank import Rank
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import CudaStarted, DeviceUsed
from gpudoctor.lint.events.process import EnvironmentWrite, Spawn
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import DUPLICATE_GPU

NAME = "CUDA_VISIBLE_DEVICES"


class VisibleDevicesSetTooLate(Rule):
    code = "GPU210"
    severity = Severity.ERROR
    # Where each rank was to see its own GPU only.
    errors = DUPLICATE_GPU
    needs = (EnvironmentWrite,)

    def in_code(self, program: Program) -> Findings:
        writes = [write for write in program.events(EnvironmentWrite) if write.name == NAME]
        # What is put back as it was, was another for something else meanwhile.
        for write in () if any(write.puts_back for write in writes) else writes:
            if _for_others(program, write):
                continue
            # A variable that nobody reads any more does no harm.
            start = _started(program, write)
            used = [used for used in program.events(DeviceUsed) if used.order > write.order and _uses(used)]
            if start is None or not used or _set_in_time(program, start):
                continue
            if _only_the_first(program, write, used) or _numbered_as_written(program, write, used):
                continue
            if _for_another_start(program, write, start):
                continue
            yield self.found(
                write.location,
                f"`{NAME}` is set after {_asked(start)} has settled which GPUs this process sees: it is ignored, and "
                "training runs on other GPUs.",
                remedy="Set it before `import torch`, or in the command that starts the program.",
                because=[("the GPUs are asked for here", start.location)],
            )


def _started(program: Program, write: EnvironmentWrite) -> Event | None:
    """What asked the driver first, in this process and surely before this write."""
    # Functions of a library are called in an order that is not known.
    if not program.whole:
        return None
    asked: list[Event] = [*program.events(CudaStarted), *filter(_uses, program.events(DeviceUsed))]
    # What another path asked, as that of `--list`, is another run.
    before = [
        event
        for event in asked
        if event.order < write.order
        and write.condition.implies(event.condition)
        and _process_of(program, event) == _process_of(program, write)
    ]
    return min(before, key=lambda event: event.order, default=None)


def _set_in_time(program: Program, start: Event) -> bool:
    """A function that chooses the GPUs is called again: its first call came before anybody had asked."""
    return any(write.order < start.order and write.name == NAME for write in program.events(EnvironmentWrite))


def _only_the_first(program: Program, write: EnvironmentWrite, used: list[DeviceUsed]) -> bool:
    """`"0"` names the GPU that is used anyway."""
    several = any(wrap.is_data_parallel for wrap in program.events(Wrap))
    indices = {each.device.literal_index for each in used if each.device.index}
    return write.surely(lambda text: text == "0") and not several and indices <= {0}


def _for_another_start(program: Program, write: EnvironmentWrite, start: Event) -> bool:
    """Each of several ranks has taken a GPU of its own: what a setting says, the same to all, is for one process."""
    own = isinstance(start, DeviceUsed) and isinstance(start.device.index, Rank)
    return program.world.several_processes and own and write.value.all(lambda value: value.config)


def _numbered_as_written(program: Program, write: EnvironmentWrite, used: list[DeviceUsed]) -> bool:
    """`cuda:{gpu}` beside `str(gpu)` counts all GPUs of the machine: it is right only because this comes too late."""
    wraps = [wrap for wrap in program.events(Wrap) if wrap.is_data_parallel]
    if any(wrap.names_ids is False for wrap in wraps):
        return False
    numbers = {part.in_python for part in write.parts}
    named = (each.device for each in used if each.device.index)
    return any(each.index in write.parts or str(each.literal_index) in numbers for each in named)


def _process_of(program: Program, event: Event) -> tuple[Hashable, ...]:
    """The call by which the process was started that does this; nothing for the one that starts the others."""
    started = {spawn.location for spawn in program.events(Spawn)}
    # Processes that are started one by one in a loop are each one of its own.
    at = next((index for index, place in enumerate(event.context.calls) if place in started), None)
    return () if at is None else event.context.frames[: at + 2]


def _uses(event: DeviceUsed) -> bool:
    """Something is put on a GPU, or one is made the current one. To name a device asks nobody."""
    # `device_ids` and `map_location` only name a device.
    gpu = event.device.is_cuda
    return gpu and event.certain and event.purpose in ("move", "set_device", "factory")


def _for_others(program: Program, write: EnvironmentWrite) -> bool:
    """Processes that are started later read it anew."""
    # A process that starts anew reads its own copy of the variable.
    later = any(spawn.order > write.order for spawn in program.events(Spawn))
    return later or any(
        escape.order > write.order and escape.into.startswith(("subprocess", "os.system", "os.exec", "multiprocessing"))
        for escape in program.events(Escape)
    )


def _asked(start: Event) -> str:
    return f"`{start.call}()`" if isinstance(start, CudaStarted) else "the use of a GPU"
