"""Each rank of a DistributedDataParallel training is given the batch of all ranks together.

## What goes wrong

`DataParallel` takes one batch for all GPUs and splits it. `DistributedDataParallel` splits nothing: each process, a
rank, reads its own batches, and the step is made from all of them. A batch size that is multiplied by the number of
GPUs, as for `DataParallel`, is then multiplied twice. No error is raised: with 8 GPUs a step sees 64 times the batch
of one GPU instead of 8 times, so there are fewer steps in an epoch than the learning rate was chosen for, or the
ranks run out of memory.

## Fix

Give the loader of each rank the batch of one GPU. No automatic fix: whether the learning rate was chosen for the
larger batch is not known.

## Silent when

The loader is not used for training, is not sharded by a distributed sampler over all ranks, or belongs to a framework;
the product is divided again, or only logged; the number it is multiplied by comes from the user. A run reports it where
lint does, since only the code tells that the number is a product.

## Sources

Lightning-AI/pytorch-lightning#3706, Lightning-AI/pytorch-lightning#4878, facebookresearch/moco#98.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.rank import Size, SizeKind
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import LearningPass, is_name, samplers_of, trained_with

if TYPE_CHECKING:
    from gpudoctor.api.pack import Sampler, Value
    from gpudoctor.run.recording import Pass as Seen

REMEDY = (
    "Leave the factor out: `batch_size` is the batch of one GPU, and "
    "a step of all ranks takes that times the number of ranks."
)


class BatchMultipliedForDdp(Rule):
    code = "GPU313"
    severity = Severity.WARNING
    of_ranks = True
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        if not program.presence():
            return
        for loader, found in trained_with(program).items():
            size = _multiplied_by(found)
            if size is None or not _sharded(found):
                continue
            label = f"`{loader.label}`" if is_name(loader.label) else "The training loader"
            yield self.found(
                at=loader.place,
                message=f"{label} gives each rank a batch that is multiplied by the {size.kind.value}, beside a "
                "sampler that divides the data among them: a step takes that number squared.",
                remedy=REMEDY,
                because=[
                    ("this number is the factor", size.place),
                    ("a model is trained with it here", found.start.location),
                ],
            )

    def in_run(self, recording: Recording) -> Findings:
        # That the number is a product stands in the code alone; how large the batch became, in the run.
        if self.code not in recording.suspected:
            return
        ranks = len(recording.ranks)
        for training in _shared_passes(recording):
            at, size = training.made or training.place, training.batch_size
            if at is not None and size is not None and size % ranks == 0:
                yield self.found(
                    at,
                    f"Each rank took {size} samples for a step, {size // ranks} times the number of ranks: all "
                    f"together took {size * ranks}, where {size} were meant.",
                    remedy=REMEDY,
                )
                return

    def could_show(self, recording: Recording) -> bool:
        return any(each.batch_size is not None for each in _shared_passes(recording))


def _shared_passes(recording: Recording) -> list[Seen]:
    """The training passes of rank 0 over data that a sampler shares out among all ranks."""
    passes = recording.ranks[0].training_passes if recording.distributed else ()
    return [each for each in passes if each.replicas == len(recording.ranks)]


def _multiplied_by(found: LearningPass) -> Size | None:
    """The number of processes that is a factor of the batch size, on every path."""
    given = found.loader.batch_size
    factors = [_factor(value) for value in given.restrict(found.when)] if given is not None else []
    return factors[0] if factors and all(factors) else None


def _factor(value: Value) -> Size | None:
    times = value.times
    return times if isinstance(times, Size) and times.kind is not SizeKind.NODES else None


def _sharded(found: LearningPass) -> bool:
    samplers = samplers_of(found.loader, found.when) or []
    return bool(samplers) and all(sampler.distributed and _over_all(sampler) for sampler in samplers)


def _over_all(sampler: Sampler) -> bool:
    """It divides the data among as many as there are processes."""
    replicas = sampler.replicas
    return replicas is None or replicas.all(lambda value: value.is_none or isinstance(value, Size))
