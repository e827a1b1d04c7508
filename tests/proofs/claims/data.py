"""Which samples the ranks see, and in which order."""

from ..record import Pass, Rank, Run
from .registry import Judgement, claim


@claim
def same_batches(run: Run, which: str = "training") -> Judgement:
    """Every rank sees the same samples in its first pass over the data."""
    seen = _first_passes(run, which)
    return len(seen) > 1 and all(seen) and len({*map(frozenset, seen)}) == 1, _sizes(seen)


@claim
def distinct_batches(run: Run, which: str = "training") -> Judgement:
    """No rank sees the samples of another in the first pass, but for the few that pad the shards."""
    seen = _first_passes(run, which)
    shared = set.intersection(*map(set, seen)) if seen else set()
    return len(seen) > 1 and all(seen) and len(shared) < len(seen), f"{_sizes(seen)}, {len(shared)} shared"


@claim
def same_order(run: Run) -> Judgement:
    """Each rank sees the same samples in the same order in its first two passes."""
    return _orders(run, True)


@claim
def new_order(run: Run) -> Judgement:
    """The second pass of each rank has another order than its first."""
    return _orders(run, False)


@claim
def part_unseen(run: Run) -> Judgement:
    """Samples of the data set are seen by no rank in the first pass."""
    seen, size, tail = _coverage(run)
    return size > 0 and 0 < seen < size - tail, f"{seen} of {size} seen"


@claim
def all_seen(run: Run) -> Judgement:
    """All samples of the data set are seen in the first pass, but for a last batch that is dropped."""
    seen, size, tail = _coverage(run)
    return size > 0 and seen >= size - tail, f"{seen} of {size} seen"


@claim
def sampler_thin(run: Run) -> Judgement:
    """A single process sees only a part of its data set."""
    holds, why = part_unseen(run)
    return holds and len(run.ranks) == 1, f"{why} by {len(run.ranks)} process"


@claim
def global_batch(run: Run, size: str) -> Judgement:
    """The ranks together take this many samples for one batch."""
    first = [rank.training_passes[0] for rank in run.ranks if rank.training_passes]
    total = sum(round(len(each.rows) / each.batches) for each in first)
    return total == int(size), f"{total} samples in a batch of all ranks"


@claim
def loads_in_training_process(run: Run) -> Judgement:
    """The training process fetches its batches itself."""
    workers = [each.about["workers"] for rank in run.ranks for each in rank.training_passes]
    return bool(workers) and not any(workers), f"workers: {workers}"


@claim
def loads_in_workers(run: Run) -> Judgement:
    """Other processes fetch the batches for the training process."""
    workers = [each.about["workers"] for rank in run.ranks for each in rank.training_passes]
    return bool(workers) and all(workers), f"workers: {workers}"


def _passes(rank: Rank, which: str) -> tuple[Pass, ...]:
    return tuple(each for each in rank.passes if not each.trains) if which == "evaluation" else rank.training_passes


def _first_passes(run: Run, which: str) -> list[tuple[str, ...]]:
    firsts = [_passes(rank, which)[:1] for rank in run.ranks]
    if any(firsts):
        return [first[0].rows if first else () for first in firsts]
    # Without a loader, what the model is given is what there is to compare.
    return [
        tuple(row for line in rank.of("forward") if line["training"] for row in line["inputs"]) for rank in run.ranks
    ]


def _orders(run: Run, same: bool) -> Judgement:
    pairs = [rank.training_passes[:2] for rank in run.ranks]
    if not pairs or any(len(pair) < 2 for pair in pairs):
        return False, f"passes per rank: {[len(pair) for pair in pairs]}"
    repeated = [first.rows == second.rows for first, second in pairs]
    return all(each == same for each in repeated), f"second pass repeats the first: {repeated}"


def _coverage(run: Run) -> tuple[int, int, int]:
    """Distinct samples seen by all ranks in the first pass, size of the data set, and what may be dropped."""
    first = [rank.training_passes[0] for rank in run.ranks if rank.training_passes]
    if not first or first[0].about["size"] is None:
        return 0, 0, 0
    # Equal samples look like one, and a set that is cut before it is sampled repeats its places: the larger counts.
    seen = max(
        len({row for each in first for row in each.rows}), len({place for each in first for place in each.index})
    )
    about = first[0].about
    tail = (about["batch_size"] or 1) * len(first) - 1 if about["drop_last"] else 0
    return seen, about["size"], tail


def _sizes(seen: list[tuple[str, ...]]) -> str:
    return f"samples per rank: {[len(set(each)) for each in seen]}"


@claim
def evaluation_leaks(run: Run) -> Judgement:
    """Samples that some rank trains on are used by some rank to evaluate."""
    trained, evaluated = _both_uses(run)
    shared = trained & evaluated
    return bool(shared), f"{len(shared)} of {len(evaluated)} evaluated samples are trained on"


@claim
def evaluation_apart(run: Run) -> Judgement:
    """No sample that any rank trains on is used by any rank to evaluate."""
    trained, evaluated = _both_uses(run)
    shared = trained & evaluated
    return bool(trained and evaluated) and not shared, f"{len(shared)} of {len(evaluated)} evaluated are trained on"


def _both_uses(run: Run) -> tuple[set[str], set[str]]:
    used: dict[bool, set[str]] = {True: set(), False: set()}
    for rank in run.ranks:
        for each in rank.passes:
            used[each.trains].update(each.rows)
    return used[True], used[False]
