"""What was understood of a program, as lines under headings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gpudoctor.cli.describe import listed, shown
from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate, MakeLoader, MakeSampler, SetEpoch
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.lint.events.files import Load, Save
from gpudoctor.lint.events.knowledge import Escape, Imprecision, UseManaged
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.process import DestroyGroup, InitGroup, Spawn
from gpudoctor.lint.events.training_step import Backward, ClearGradients, OptimizerStep
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.domain.value import Value
    from gpudoctor.lint.events.event_context import Event, Loop
    from gpudoctor.lint.program import Program


@dataclass(frozen=True)
class Line:
    """One thing that the program does, where, and on which ranks if not on every one."""

    text: str
    location: Location
    who: str = ""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    lines: tuple[Line, ...]


def outline(program: Program) -> Iterator[Section]:
    """The sections that have something to say, in the order in which a reader asks."""
    for title, describe in _SECTIONS.items():
        lines = [line for event in program.log if (line := _line(event, describe, program)) is not None]
        if title == "Loops":
            lines = list(_loops(program))
        if title in _ONCE_FOR_EACH_PLACE:
            # In each round of a loop another path is written.
            lines = list({(line.location, line.who): line for line in reversed(lines)}.values())[::-1]
        if lines:
            yield Section(title, tuple(dict.fromkeys(lines)))


_ONCE_FOR_EACH_PLACE = ("Files",)
Describe = dict[type[Any], Callable[[Any], str]]


def _line(event: Event, describe: Describe, program: Program) -> Line | None:
    words = describe.get(type(event))
    text = words(event) if words else ""
    if not text:
        return None
    ranks = ranks_in_words(event) if program.world.several_processes and program.has_entry else ""
    return Line(text, event.location, "" if ranks == "every rank" else ranks)


def _loops(program: Program) -> Iterator[Line]:
    """The loops around training; a model's own loops over its layers would bury them."""
    seen: set[Hashable] = set()
    for event in program.events(Iterate, Backward, OptimizerStep, SetEpoch):
        for loop in event.loops:
            if loop.identity not in seen:
                seen.add(loop.identity)
                yield Line(_rounds(loop), loop.location)


def _rounds(loop: Loop) -> str:
    if loop.over is not None:
        return f"over the batches of {shown(loop.over)}"
    if loop.times is None:
        return "an unknown number of iterations"
    return f"{loop.times} iteration{'' if loop.times == 1 else 's'}"


def _init(event: InitGroup) -> str:
    return f"{event.by}{listed(backend=event.backend, init_method=event.init_method, rank=event.rank)}"


def _spawn(event: Spawn) -> str:
    target = f"`{event.target}`" if event.target else "something unknown"
    return f"{event.by} of {target}{listed(args=event.args, nprocs=event.nprocs)}"


def _wrap(event: Wrap) -> str:
    lies = f", model on {shown(event.model_device)}" if event.model_device is not None else ""
    ids = event.wrapper.device_ids if isinstance(event.wrapper, Wrapper) else None
    return f"{event.kind.value} around {shown(event.inner)}{listed(device_ids=ids)}{lies}"


def _sampler(event: MakeSampler) -> str:
    share = {True: "each rank draws its shard", False: "each rank draws everything", None: "its shard is not known"}
    settings = listed(dataset=event.sampler.dataset, shuffle=event.sampler.shuffle)
    return f"sampler {shown(event.sampler)}{settings}: {share[event.sampler.distributed]}"


def _loader(event: MakeLoader) -> str:
    loader = event.loader
    settings = listed(
        dataset=loader.dataset,
        sampler=loader.sampler,
        batch_sampler=loader.batch_sampler,
        shuffle=loader.shuffle,
        num_workers=loader.num_workers,
    )
    return f"loader {shown(loader)}{settings}{f', sharded by {loader.managed}' if loader.managed else ''}"


def _forward(event: Forward) -> str:
    # A model calls dozens of modules inside; what the training loop calls is what a reader looks for.
    if not isinstance(event.module, Wrapper) and not any(loop.over is not None for loop in event.loops):
        return ""
    mode = "" if event.graph else ", no graph"
    return f"forward of {shown(event.module)}{mode}"


def _step(event: OptimizerStep) -> str:
    return f"step of {shown(event.optimizer)}{f' through {event.through}' if event.through else ''}"


def _collective(event: Collective) -> str:
    return f"{event.call}{listed(of=event.subject, group=None if event.of_all_ranks else event.group)}"


def _lost(event: Imprecision) -> str:
    return f"{event.why} (a limit was reached)" if event.limit else event.why


def _escape(event: Escape) -> str:
    # What gets nothing that matters here may do what it likes.
    return f"{', '.join(_each_once(event.values))} goes into {event.into}, which was not read" if event.values else ""


def _each_once(values: Iterable[Value]) -> Iterable[str]:
    """Many objects of one container are shown as it."""
    return dict.fromkeys(map(shown, values))


_SECTIONS: dict[str, Describe] = {
    "Frameworks in charge": {UseManaged: lambda event: f"{event.framework}: {event.call}"},
    "Processes": {InitGroup: _init, Spawn: _spawn, DestroyGroup: lambda event: "destroy_process_group"},
    "Wrapped models": {Wrap: _wrap},
    "Data": {
        MakeSampler: _sampler,
        MakeLoader: _loader,
        SetEpoch: lambda event: f"set_epoch of {shown(event.target)}{listed(epoch=event.epoch)}",
    },
    "Loops": {},
    "Training": {
        Forward: _forward,
        Backward: lambda event: f"backward of {shown(event.loss)}",
        OptimizerStep: _step,
        ClearGradients: lambda event: f"gradients of {shown(event.target)} cleared",
    },
    "Collectives": {Collective: _collective},
    "Files": {
        Save: lambda event: f"{event.call}{listed(path=event.path)}",
        Load: lambda event: f"{event.call}{listed(path=event.path, map_location=event.onto)}",
    },
    "Not followed": {Imprecision: _lost, Escape: _escape},
}
