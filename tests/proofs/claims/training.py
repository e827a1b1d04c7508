"""Gradients, graphs, modes and layers: what one training step is made of."""

from itertools import pairwise

from ..record import Line, Rank, Run
from .registry import Judgement, claim


@claim
def gradients_kept(run: Run) -> Judgement:
    """A backward after a step finds gradients from before the step."""
    kept = _kept(run)
    return any(kept), f"{sum(kept)} of {len(kept)} backwards after a step find old gradients"


@claim
def gradients_cleared(run: Run) -> Judgement:
    """No backward after a step finds gradients from before the step."""
    kept = _kept(run)
    return bool(kept) and not any(kept), f"{sum(kept)} of {len(kept)} backwards after a step find old gradients"


@claim
def graph_grows(run: Run) -> Judgement:
    """The graph kept alive is larger at each of several forwards in a row."""
    growth = max(map(_growth, run.ranks), default=0)
    return growth >= 3, f"grows {growth} times in a row"


@claim
def graph_freed(run: Run) -> Judgement:
    """The graph kept alive does not keep growing."""
    growth = max(map(_growth, run.ranks), default=0)
    looks = min((len([*rank.of("forward")]) for rank in run.ranks), default=0)
    return growth < 3 and looks > 3, f"grows at most {growth} times in a row in {looks} forwards"


@claim
def graph_built(run: Run) -> Judgement:
    """A forward of the evaluation builds a graph that nobody uses."""
    built = _evaluation_graphs(run)
    return any(built), f"{sum(built)} of {len(built)} evaluation forwards build a graph"


@claim
def no_graph(run: Run) -> Judgement:
    """No forward of the evaluation builds a graph."""
    built = _evaluation_graphs(run)
    return bool(built) and not any(built), f"{sum(built)} of {len(built)} evaluation forwards build a graph"


@claim
def trains_in_eval_mode(run: Run) -> Judgement:
    """Some forward that is followed by a backward happens in evaluation mode."""
    modes = _training_modes(run)
    return not all(modes) and bool(modes), f"training forwards in train mode: {sum(modes)} of {len(modes)}"


@claim
def trains_in_train_mode(run: Run) -> Judgement:
    """Every forward that is followed by a backward happens in training mode."""
    modes = _training_modes(run)
    return all(modes) and bool(modes), f"training forwards in train mode: {sum(modes)} of {len(modes)}"


@claim
def unregistered(run: Run) -> Judgement:
    """Parameters lie in plain containers, where the model does not find them."""
    hidden = [line["unregistered"] for rank in run.ranks for line in rank.of("forward")]
    return any(hidden), f"{max(hidden, default=0)} hidden parameters"


@claim
def registered(run: Run) -> Judgement:
    """The model finds all parameters of its layers."""
    hidden = [line["unregistered"] for rank in run.ranks for line in rank.of("forward")]
    return bool(hidden) and not any(hidden), f"{max(hidden, default=0)} hidden parameters"


def _kept(run: Run) -> list[bool]:
    return [line["kept"] for rank in run.ranks for line in rank.of("backward") if line["kept"] is not None]


def _growth(rank: Rank) -> int:
    best = now = 0
    for before, after in pairwise([line["nodes"] for line in rank.of("forward")]):
        now = now + 1 if after > before else 0
        best = max(best, now)
    return best


def _forwards(rank: Rank) -> list[tuple[Line, bool]]:
    """Each forward, and whether a backward comes before the next one."""
    lines = [*rank.of("forward", "backward")]
    following = [line["kind"] for line in lines[1:]] + ["end"] * bool(lines)
    return [
        (line, then == "backward") for line, then in zip(lines, following, strict=True) if line["kind"] == "forward"
    ]


def _evaluation_graphs(run: Run) -> list[bool]:
    return [line["builds_graph"] for rank in run.ranks for line, trains in _forwards(rank) if not trains]


def _training_modes(run: Run) -> list[bool]:
    return [line["training"] for rank in run.ranks for line, trains in _forwards(rank) if trains]


@claim
def clip_holds(run: Run) -> Judgement:
    """At every step of a program that clips, the gradients are within the bound it clips to."""
    norms = _clipped(run)
    return bool(norms) and all(norm <= bound * 1.001 for norm, bound in norms), f"norm and bound: {norms[:4]}"


@claim
def clip_broken(run: Run) -> Judgement:
    """At some step of a program that clips, the gradients are beyond the bound it clips to."""
    norms = _clipped(run)
    return any(norm > bound * 1.001 for norm, bound in norms), f"norm and bound: {norms[:4]}"


@claim
def clip_overdone(run: Run) -> Judgement:
    """At each step of a program that clips, the gradients are less than a hundredth of the bound it clips to."""
    norms = _clipped(run)
    return bool(norms) and all(norm < bound / 100 for norm, bound in norms), f"norm and bound: {norms[:4]}"


def _clipped(run: Run) -> list[tuple[float, float]]:
    """The norm of the gradients at each step, and the bound that the program clips to anywhere."""
    pairs = []
    for rank in run.ranks:
        bounds = [line["bound"] for line in rank.of("clip")]
        pairs += [(line["norm"], bounds[0]) for line in rank.of("gradients") if bounds]
    return pairs
