"""A stream yields all of its samples on every rank, or in every worker of a loader.

## What goes wrong

Nothing distributes the samples of an `IterableDataset`: each process that iterates it gets what its `__iter__` yields.
On several ranks each of them trains on everything, so that 8 GPUs do the work of one. With `num_workers=4` the four
worker processes of a loader each yield everything as well, and every sample comes four times in an epoch. No error is
raised; the loss looks as always, and an epoch is longer than it should be.

## Fix

Number the workers of all ranks and let each take every n-th sample, or files of its own: with `info =
torch.utils.data.get_worker_info()` the number is `rank * info.num_workers + info.id`, of `world_size *
info.num_workers`. A stream of Hugging Face's `datasets` is split by `split_dataset_by_node`. No automatic fix.

## Silent when

`__iter__` asks for the rank or the worker, begins at a number that it was given, picks with `%`, draws at random or
never ends; what it reads was made by code that cannot be read, which may shard it; the class is not known in full;
a `worker_init_fn` prepares the workers; a framework shards the stream. Of the streams of libraries those of Hugging
Face's `datasets` are known (`streaming=True`), as long as nothing but the library's own methods stands between them and
the loader.

## Sources

https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset, huggingface/datasets#5360,
huggingface/datasets#3423, Lightning-AI/pytorch-lightning#15734.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import Dataset, Loader
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.data_loading import Streamed, StreamLoaded
from gpudoctor.lint.questions.whole_data import stream_behind
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import LearningPass, escapes, trained_together, trained_with, where_averaged


class IterableDatasetNotSharded(Rule):
    code = "GPU309"
    severity = Severity.ERROR
    shows_when = ("distributed", "ranks.training_passes.iterable")
    needs = (Streamed, StreamLoaded)

    def in_code(self, program: Program) -> Findings:
        program = program.of_ranks
        if not program.whole or program.streams_shared_out:
            return
        followed = {event.source: event for event in program.events(Streamed)}
        loaded: dict[Value, StreamLoaded] = {event.stream: event for event in program.events(StreamLoaded)}
        for loader, training in trained_with(program).items():
            stream = loader.dataset.restrict(training.when).single if loader.dataset is not None else None
            if loader.opaque or loader.managed or loader.sharded:
                continue
            if stream is not None and (whole := stream_behind(stream, loaded)) is not None:
                yield from self._of_library(program, loader, training, loaded[whole])
            if not isinstance(stream, Dataset):
                continue
            told = followed.get(stream) if stream.iterable else None
            # Its constructor may have been given a share, or somebody may cut it later.
            if loader.worker_init or escapes(program, loader, stream) or program.cut_before(training.backward):
                continue
            if told is not None:
                yield from self._of(program, loader, training, stream, told)

    def in_run(self, recording: Recording) -> Findings:
        passes = [rank.training_passes[0] for rank in recording.ranks if rank.training_passes]
        if not recording.distributed or len(passes) < len(recording.ranks) or not all(each.iterable for each in passes):
            return
        prints = {each.prints for each in passes}
        # Constant data looks alike on all ranks, and within each of them.
        if len(prints) == 1 and len(set(passes[0].prints)) >= _ENOUGH and (at := passes[0].made or passes[0].place):
            yield self.found(
                at,
                f"The first {len(passes[0].prints)} batches of all ranks "
                "were the same: the stream gives each of them everything.",
                remedy="Let `__iter__` skip what belongs to others: every `world_size`-th sample, from `rank` on.",
            )

    def _of(
        self, program: Program, loader: Loader, training: LearningPass, stream: Dataset, told: Streamed
    ) -> Findings:
        averaged = trained_together(program, training) if program.launched_in_several else None
        workers = loader.workers
        if told.same_on_ranks and averaged is not None:
            yield self.found(
                loader.place,
                f"Every rank trains on all of `{stream.label}`: the stream never asks which rank it is on, so more "
                "GPUs do not shorten the epoch.",
                remedy="Let `__iter__` yield every n-th sample, beginning at the rank: `islice(samples, rank, None, "
                "world_size)`.",
                because=[("the stream is made here", stream.place), *where_averaged(averaged)],
            )
        elif told.same_in_workers and workers > 1:
            yield self.found(
                loader.place,
                f"Each of the {workers} workers of `{loader.label}` yields all of `{stream.label}`: every sample comes "
                f"{workers} times in an epoch.",
                remedy="Ask `torch.utils.data.get_worker_info()` in `__iter__`, and yield the shard of this worker.",
                because=[("the stream is made here", stream.place), ("it is trained on here", training.start.location)],
            )

    def _of_library(self, program: Program, loader: Loader, training: LearningPass, source: StreamLoaded) -> Findings:
        averaged = trained_together(program, training) if program.launched_in_several else None
        if averaged is None or loader.worker_init or program.cut_before(training.backward):
            return
        yield self.found(
            loader.place,
            "Every rank trains on all of this stream: nothing gives each of them its part, so more GPUs do not shorten "
            "the epoch.",
            remedy=_SHARE_OF_RAY
            if "ray" in program.frameworks
            else "Split it where it is loaded, by a function of datasets' module for distributed training: "
            "`split_dataset_by_node(stream, rank=dist.get_rank(), world_size=dist.get_world_size())`.",
            because=[("the stream is loaded here", source.location), *where_averaged(averaged)],
        )


_SHARE_OF_RAY = (
    'Give the dataset to `TorchTrainer(..., datasets={"train": dataset})`, and go over '
    '`ray.train.get_dataset_shard("train")` in the workers.'
)
_ENOUGH = 3
"""Different batches that must have been alike on all ranks."""
