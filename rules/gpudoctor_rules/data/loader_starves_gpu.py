"""The GPU waits while the training process itself reads and prepares the next batch.

## What goes wrong

With `num_workers=0`, the default, a `DataLoader` makes each batch in the training process, when it is asked for: it
opens the files, decodes and augments them one after the other, and the GPU idles meanwhile. With several GPUs each of
them waits so in every step. Worker processes make the next batches while the GPU computes. And a batch that is not in
pinned memory cannot be copied at the same time: `non_blocking=True` has no effect.

## Fix

`num_workers=` a few for each GPU, as long as all ranks of a node together use no more than it has cores, and
`pin_memory=True`. Unsafe: workers are processes of their own, which need a copy of the data set, and have random
numbers of their own.

## Silent when

The data lies in memory as tensors; nothing shows that an item costs anything; the number of workers is an option or
depends on a test; the model trains on the CPU; a framework or a class of the project makes the loader.

## Sources

facebookresearch/mmf#180, https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html,
https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.data import Dataset, Loader
from gpudoctor.lint.events.data_loading import ItemRead, Iterate, MakeLoader
from gpudoctor.lint.events.placement import Move
from gpudoctor.lint.repair.repair import Repair, SetArgument, SetArguments
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import LearningPass, trained_with

if TYPE_CHECKING:
    from gpudoctor.api.pack import Value, Values
    from gpudoctor.run.recording import Pass as RunPass
    from gpudoctor.run.recording import Process

PICTURES = "torchvision.datasets."


class LoaderStarvesGpu(Rule):
    code = "GPU318"
    severity = Severity.PERF
    fix_safety = Safety.UNSAFE
    shows_when = ("ranks.training_passes",)
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        # Those only put a sampler in place: workers and memory stay as the program has said.
        if program.managed_by - program.leaving("loaders"):
            return
        for loader, training in trained_with(program).items():
            made = _made_at(program, loader)
            # By the program or by the framework.
            moves = [each for each in program.events(Move) if each.subject.batch_of == loader and each.to_gpu]
            if loader.opaque or loader.cls is not None or made is None:
                continue
            # Batches that stay on the CPU keep no GPU waiting.
            if not moves and not _feeds_gpu(program, training):
                continue
            data = loader.dataset.restrict(training.when) if loader.dataset is not None else ()
            # The data set under `Subset` and the parts of a split.
            datasets = [each.source if isinstance(each, Dataset) else each for each in data]
            late = next((move for move in moves if move.unpinned_async), None)
            if _items_cost(program, datasets) and _given_nothing(loader.num_workers, training, 0):
                yield self._no_workers(made, loader, training, _reads(program, datasets))
            elif late is not None and _given_nothing(loader.pin_memory, training, False) and not _in_memory(loader):
                yield self._not_pinned(late, made)

    def in_run(self, recording: Recording) -> Findings:
        slow = ((rank, each, *_waited(rank, each)) for rank in recording.ranks for each in rank.training_passes)
        # Data that lies in memory is there at once, whoever fetches it.
        worth = [
            one for one in slow if one[2] > _WORTH and one[3] > _LONG and not one[1].workers and not one[1].in_memory
        ]
        for rank, each, share, _ in sorted(worth, key=lambda one: -one[2])[:1]:
            if each.made is not None:
                yield self.found(
                    each.made,
                    f"Rank {rank.rank or 0} waited for its batches in {share:.0%} of "
                    "the time, because the training process loads them itself: without "
                    f"that it would be {1 / (1 - min(share, 0.99)):.1f} times as fast.",
                    remedy="Give the loader `num_workers` and `pin_memory=True`.",
                )

    def _no_workers(self, made: Location, loader: Loader, training: LearningPass, read: ItemRead | None) -> Finding:
        workers = SetArgument(made, "num_workers", ("4",), 5, over_plain=True)
        pinned = (_pinned(made),) if _given_nothing(loader.pin_memory, training, False) else ()
        work = f"reads each item of the next batch with `{read.call}`" if read else "decodes and transforms each item"
        return self.found(
            made,
            f"This loader has no workers: the training process itself {work}, and the GPU waits for it in every step.",
            remedy="Set `num_workers=4`, or as many as there are CPU cores per GPU, and `pin_memory=True`.",
            because=[
                ("an item is read here", read.location if read else None),
                ("the GPU waits in this loop", training.start.location),
            ],
            repair=Repair("Give it workers and pinned memory", (SetArguments(made, (workers, *pinned)),)),
        )

    def _not_pinned(self, move: Move, made: Location) -> Finding:
        return self.found(
            made,
            "The batches of this loader are copied with `non_blocking=True`, which needs pinned memory, and they are "
            "not in it: their copies cannot overlap with the GPU's work.",
            remedy="Give it `pin_memory=True`.",
            because=[("they are copied to the GPU here", move.location)],
            repair=Repair("Pin the memory of batches", (_pinned(made),)),
        )


def _pinned(made: Location) -> SetArgument:
    return SetArgument(made, "pin_memory", ("True",), 7, over_plain=True)


def _made_at(program: Program, loader: Loader) -> Location | None:
    """Where the program made the loader; what a framework has prepared was another object before."""
    for event in program.events(MakeLoader):
        if event.loader == loader or (loader.managed and getattr(event.loader, "dataset", None) == loader.dataset):
            return event.location
    return None


def _feeds_gpu(program: Program, training: LearningPass) -> bool:
    """The model that learns from the batches is on a GPU, and has them moved there."""
    return any(call.on_gpu for call in program.calls_in_graph(training.backward))


def _given_nothing(given: Values | None, training: LearningPass, default: object) -> bool:
    """The argument was left out, or is its default on each path to the training."""
    return given is None or given.restrict(training.when).all(lambda value: value.in_python is default)


def _reads(program: Program, datasets: list[Value]) -> ItemRead | None:
    """Where a file is read for each item, in code of the project."""
    return next((event for event in program.events(ItemRead) if event.dataset in datasets), None)


def _items_cost(program: Program, datasets: list[Value]) -> bool:
    """Each item must be read or decoded when it is asked for."""
    if not datasets or not all(each.iterable is False for each in datasets):
        return False
    pictures = all(each.made_by.startswith(PICTURES) for each in datasets)
    return pictures or _reads(program, datasets) is not None


def _in_memory(loader: Loader) -> bool:
    return any(isinstance(each, Dataset) and each.in_memory for each in loader.dataset or ())


_WORTH, _LONG = 0.1, 0.005
"""Share of the time, and seconds of a step, that are waited, from which on workers are worth their start."""


def _waited(rank: Process, each: RunPass) -> tuple[float, float]:
    """The share of the time that a rank waited for batches in a pass, and the seconds in a middle step of it."""
    steps = [step for step in rank.steps if each.first_step < step.number <= each.first_step + each.steps][1:]
    took = sum(step.took for step in steps)
    waits = sorted(step.spans.get("wait", 0.0) for step in steps)
    return (sum(waits) / took, waits[len(waits) // 2]) if took else (0.0, 0.0)
