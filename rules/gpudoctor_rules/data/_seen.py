"""What a run shows of the shares that the ranks draw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.record import dataclass
from gpudoctor.rule import Recording

if TYPE_CHECKING:
    from gpudoctor.api.pack import Location
    from gpudoctor.run.recording import Pass, Process, Shared

_MOST = 0.9
"""Of the data set: who draws so much of it has no share of it."""


@dataclass(frozen=True)
class Whole:
    """A training pass in which every rank drew all of the data, or all drew the same."""

    training: Pass
    share: str
    shared_elsewhere: Shared | None
    """A sampler was made for this data, and is not that of the loader."""

    @property
    def custom(self) -> bool:
        """The loader has a sampler of the program's own, which shares nothing out."""
        return self.training.sampler not in ("RandomSampler", "SequentialSampler")

    @property
    def at(self) -> Location | None:
        return self.training.made or self.training.place


def whole_on_every_rank(recording: Recording) -> Iterator[Whole]:
    """The loaders whose first training pass shared nothing out, where the ranks train one model."""
    if not recording.distributed or not all(rank.wraps for rank in recording.ranks):
        return
    # A loader that Accelerate was not given, beside a model that it was, is another mistake.
    if any(each.models and each.plain for each in recording.ranks[0].accelerators):
        return
    for number in sorted({each.loader for each in recording.ranks[0].training_passes}):
        firsts = [_first(rank, number) for rank in recording.ranks]
        passes = [each for each in firsts if each is not None]
        suspected = bool(recording.suspected & _NOTHING_SHARED)
        if len(passes) == len(recording.ranks) and (share := _share(passes) or (suspected and _drawing_from(passes))):
            made = [each for rank in recording.ranks for each in rank.samplers if each.dataset in _data(passes)]
            yield Whole(passes[0], share, made[0] if made else None)


def _first(rank: Process, loader: int) -> Pass | None:
    return next((each for each in rank.training_passes if each.loader == loader), None)


def _data(passes: list[Pass]) -> set[int]:
    return {each.dataset for each in passes}


def _share(passes: list[Pass]) -> str:
    """What all ranks have drawn, or nothing where each had its own shard."""
    if any(each.replicas is not None or each.places is None for each in passes):
        return ""
    drawn = [frozenset(each.places or ()) for each in passes]
    sizes = {each.size for each in passes}
    size = sizes.pop() if len(sizes) == 1 else None
    if size and all(len(each) >= _MOST * size for each in drawn):
        # A `Subset` of each rank's own has the size of the share, and other places.
        common = len(frozenset.intersection(*drawn))
        return f"{len(drawn[0])} of {size} samples" if common >= _MOST * size and not _drawn_anew(passes) else ""
    alike = len(drawn[0]) > 1 and len(set(drawn)) == 1 and passes[0].places == passes[1].places
    return f"the same {len(drawn[0])} samples in the same order" if alike else ""


_NOTHING_SHARED = {"GPU301", "GPU307"}


def _drawing_from(passes: list[Pass]) -> str:
    """All of the data, from which every rank was drawing when the run was over or enough was kept: that no rank had a
    shard of its own is what lint has read in the code."""
    sizes = {each.size for each in passes}
    unfinished = all(not each.ended or not each.kept_all for each in passes)
    shared_out = any(each.replicas is not None or each.sampler != "RandomSampler" for each in passes)
    size = sizes.pop() if len(sizes) == 1 else None
    return f"from all {size} samples" if size and unfinished and not shared_out else ""


def _drawn_anew(passes: list[Pass]) -> bool:
    """The same places held other content on each rank: a sample is made up when it is asked for."""
    first, second, *_ = passes
    return first.places == second.places and set(first.prints).isdisjoint(second.prints)


def shuffled_passes(rank: Process) -> list[Pass]:
    """Complete training passes of a sampler that shuffles and shares out."""
    return [each for each in rank.training_passes if each.ended and each.shuffle and (each.replicas or 1) > 1]


def shared_out_again(recording: Recording) -> Pass | None:
    """A pass of a sampler that takes a share of what is one rank's own already: it splits fewer samples than the ranks
    have drawn in all, of which each draws some again, and never those of another."""
    passes = [shuffled_passes(rank) for rank in recording.ranks]
    first = passes[0][0] if recording.distributed and all(passes) else None
    if first is None or first.size is None or first.replicas != len(passes):
        return None
    of_loader = [[each for each in of_rank if each.loader == first.loader] for of_rank in passes]
    if not all(each.kept_all and each.size == first.size for of_rank in of_loader for each in of_rank):
        return None
    drawn = [[place for each in of_rank for place in each.places or ()] for of_rank in of_loader]
    own = [len(set(places)) for places in drawn]
    apart = len(set().union(*drawn)) == sum(own) > first.size
    return first if apart and all(many < len(places) for many, places in zip(own, drawn, strict=True)) else None


def same_order_again(recording: Recording) -> Iterator[tuple[Pass, Pass]]:
    """For each loader the first two passes of rank 0, where they had one order; the first one of a sampler counts."""
    passes = shuffled_passes(recording.ranks[0]) if recording.ranks else []
    for number in sorted({each.loader for each in passes}):
        first, *others = [each for each in passes if each.loader == number]
        # A handful of samples may come in the same order twice.
        if others and len(first.places or ()) > _FEW and first.digest == others[0].digest:
            yield first, others[0]


_FEW = 4


def shares_kept(recording: Recording, passes: Iterable[Pass]) -> list[Pass] | None:
    """Of these passes of rank 0, the whole ones over a shard of the data, where from each of them on, and until the
    next pass that trains, the ranks have exchanged nothing but what wrappers do; none where they have, and None where
    there is no such pass, or that is not known."""
    shares = [each for each in passes if each.ended and (each.replicas or 1) > 1] if recording.distributed else []
    calls = recording.ranks[0].collectives if shares else ()
    began = min((each.began for each in calls), default=0.0)
    # Only the last ones are kept, and those of the wrapper show that they are kept at all.
    known = any(each.of_wrapper for each in calls) and all(len(calls) < _KEPT or began < each.began for each in shares)
    if not known:
        return None
    own = [each.began for each in calls if not each.of_wrapper and "barrier" not in each.name]
    for share in shares:
        later = (each.began for each in recording.ranks[0].training_passes if each.began > share.began)
        until = min(later, default=float("inf"))
        if any(share.began <= each < until for each in own):
            return []
    return shares


_KEPT = 400
"""Collectives that a recording has of a process at most."""


def drawn_of(passed: Pass) -> str:
    """How much of the data a rank went through, as `11 of 21 samples`."""
    count = f"{len(set(passed.places))}" if passed.places else f"{passed.batches} batches"
    return f"{count} of {passed.size} samples" if passed.places and passed.size else count


@dataclass(frozen=True)
class SplitParts:
    """What a rank trained on and evaluated with, of one data set that was cut into parts: places in the whole."""

    rank: int
    training: Pass
    trained: frozenset[int]
    evaluated: frozenset[int]
    cut_at: Location | None
    """Where the data were split at random."""


def parts_of(recording: Recording) -> list[SplitParts]:
    """The parts of each rank, where all ranks train one model on a part of the data and evaluate with another."""
    if not recording.distributed or not all(rank.wraps for rank in recording.ranks):
        return []
    found = [_parts(rank) for rank in recording.ranks]
    return [each for each in found if each is not None] if all(found) else []


def _parts(rank: Process) -> SplitParts | None:
    cut = [each for each in rank.passes if each.places and each.root != each.dataset]
    training = next((each for each in cut if each.trains), None)
    if training is None:
        return None
    here = [each for each in cut if each.root == training.root]
    trained, evaluated = (
        frozenset(place for each in here if each.trains is trains for place in each.places or ())
        for trains in (True, False)
    )
    at = next((each.place for each in rank.splits if training.dataset in each.parts), None)
    return SplitParts(rank.rank or 0, training, trained, evaluated, at) if evaluated else None


def told_differently(recording: Recording) -> Pass | None:
    """A pass of some rank whose sampler had been told another epoch than those of the others."""
    shuffled = [shuffled_passes(rank) for rank in recording.ranks]
    for together in zip(*shuffled, strict=False):
        if len({each.epoch for each in together}) > 1:
            return next((each for each in together if each.told_at is not None), None)
    return None
