"""What was seen of a run, as plain data: the questions that rules may ask of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import permutations

from gpudoctor.diagnostic import Finding, Location
from gpudoctor.logs.error_texts import OF_LAUNCHERS, QUOTES_ITS_RANK
from gpudoctor.record import dataclass, replace
from gpudoctor.run.recording.call_counts import (
    Again,
    BetweenSteps,
    Clip,
    Compiled,
    Fetch,
    GatheredIntoOne,
    Logger,
    Loss,
    RecordedCollective,
    RecordedOption,
    SteppedEarly,
    Subgroup,
    Sum,
    TensorRead,
)
from gpudoctor.run.recording.framework_facts import (
    DividedAgain,
    Drawn,
    GatheredPadding,
    RecordedAccelerator,
    RecordedEngine,
    RecordedSchedule,
    SharedAgain,
)
from gpudoctor.run.recording.model_facts import Hidden, LayersCutUp, Norms, Search
from gpudoctor.run.recording.process_ends import STATES, Crash, Fatal, StackFrame, Terminated, is_inside_of
from gpudoctor.run.recording.random_facts import GeneratorStates, RecordedSplit, Seed

_METRIC = 64
"""Numbers that a metric has at most."""
_NO_METRIC = ("all_to_all", "alltoall", "reduce_scatter", "_reduce_scatter")
"""How no metric is computed, of whatever size."""


@dataclass(frozen=True)
class RecordedGroup:
    """`init_process_group` was called.

    `rank` and `size` are what it was given, None where they come from the environment; `timeout` says whether one was
    given, `address` where the ranks meet.
    """

    place: Location | None
    rank: int | None = None
    size: int | None = None
    timeout: bool = False
    address: str = ""


@dataclass(frozen=True)
class RecordedWrap:
    """A model was given to a wrapper (`DistributedDataParallel`, `DataParallel`). `trainable` counts the parameters
    that it learns."""

    wrapper: str
    id: int
    inner: int
    model: str
    nested: bool
    trainable: int
    devices: tuple[str, ...]
    place: Location | None


@dataclass(frozen=True)
class Calls:
    """One backward went through two calls of a wrapper that copies buffers at the begin of each."""

    wrapper: int
    step: int
    first: Location | None
    second: Location | None


@dataclass(frozen=True)
class OnSigterm:
    """What a process does at SIGTERM instead of ending: nothing, or what stands at `place`."""

    ignored: bool
    place: Location | None


@dataclass(frozen=True)
class Failure:
    """An error went through a loader, a wrapper, a backward or a step; somebody may have caught it further out."""

    type: str
    text: str
    step: int
    at: float
    place: Location | None


@dataclass(frozen=True)
class Refused:
    """A command line was refused with this text."""

    text: str
    place: Location | None


@dataclass(frozen=True)
class Shared:
    """A `DistributedSampler` was made, for this data set."""

    dataset: int
    place: Location | None


@dataclass(frozen=True)
class RecordedOptimizer:
    """An optimizer that has stepped. `held` says for each wrapper how many trainable parameters it has, and how many
    of them the optimizer holds."""

    number: int
    type: str
    parameters: int
    held: Mapping[int, tuple[int, int]]
    sharded: bool
    device: str
    gpu: str
    seed: int
    debug: tuple[str, ...]
    """What is switched on for finding bugs, and slows training down."""
    place: Location | None
    """Where it stepped first."""
    backward: Location | None
    """Where the first backward was called."""
    seeded: bool = False
    """The program has set the seed."""
    whole: tuple[int, ...] = ()
    """The places of the trainable parameters that are no shards, where others that it holds are."""
    prepared: bool = False
    """Accelerate was given it."""
    unwrapped: int = 0
    """Parameters that it holds and no wrapper has."""


@dataclass(frozen=True)
class Pass:
    """One iteration over a loader.

    `places` are those of the first samples in the data set that was split, in the order in which they came, and
    `samples` how many came in all; None where samples have no place. `digest` names the order of all of them, `prints`
    the content of the first batches. `steps` were made during the pass, so that a pass without is an evaluation. A
    graph was built with `gradient`, or could have been, where that is not known.
    """

    number: int
    loader: int
    batches: int
    ended: bool
    steps: int
    first_step: int
    backwards: int
    gradient: bool
    training: bool | None
    digest: str
    places: tuple[int, ...] | None
    samples: int
    prints: tuple[str, ...]
    dataset: int
    iterable: bool
    size: int | None
    batch_size: int | None
    workers: int
    sampler: str
    replicas: int | None
    sampler_rank: int | None
    seed: int | None
    in_memory: bool
    """The data lies in memory as tensors, as far as can be seen."""
    epoch: int | None
    shuffle: bool | None
    told: int
    """How often its sampler had been told an epoch when the pass began."""
    told_at: Location | None
    made: Location | None
    """Where the loader was made."""
    place: Location | None
    """Where the pass began."""
    root: int = 0
    """The data set of which `dataset` is a part, or itself."""
    noise: tuple[str, ...] = ()
    """For batches that drew random numbers in this process: names of the states of torch's generator before."""
    began: float = 0.0
    until: float = 0.0
    """When it was heard of last."""
    exchanges: int = 0
    """Collectives that the program had called by then."""
    exchanged_first: int | None = None
    """Collectives that the program has called between its begin and the first backward in it."""
    tokens: int = 0
    """In the batches that were looked at, where these are known to be `sequences` of tokens."""
    sequences: int = 0
    prepared: bool = False
    """Accelerate has made the loader."""
    skipped: int = 0
    """Batches that the loader leaves out in each pass."""
    left: bool = False
    """Nobody goes on with it, and it had not come to the end of the loader."""
    backwards_when_left: int = 0
    """How many there had been since it began, when that was seen."""

    @property
    def learns_from_all(self) -> bool:
        """It came to the end of the loader, and each batch had a backward: without one, in a round, a rank leaves the
        others alone in it, which is another mistake."""
        return self.ended and self.batches <= self.backwards

    @property
    def kept_all(self) -> bool:
        """Nothing is missing from `places`."""
        return self.places is not None and len(self.places) == self.samples

    @property
    def trains(self) -> bool:
        """An optimizer stepped between its batches."""
        return self.steps > 0


@dataclass(frozen=True)
class Step:
    """One step of an optimizer. Times are seconds of this process; `took` is from the step before to this one."""

    number: int
    optimizer: int
    at: float
    took: float
    spans: Mapping[str, float]
    counts: Mapping[str, int]
    memory: int | None
    cost: float
    peak: int | None = None
    """The most that was held at once until then."""
    of: int = 1
    """So many steps since the one before that was written down: `took` and what was waited for data are their means,
    the rest is of this one."""
    starts: tuple[tuple[str, float, float], ...] = ()
    """What `spans` sums up: when each began, in seconds since the epoch, and how long it took; for traces only."""


@dataclass(frozen=True)
class Exposed:
    """Communication of one backward through a wrapper, by the wrapper's own clocks, in seconds: all of it took `took`,
    and `hidden` of that the backward still had something to compute. `began` is in seconds since the epoch."""

    step: int
    wrapper: int
    iteration: int
    took: float
    hidden: float
    began: float

    @property
    def seconds(self) -> float:
        """What the backward could not hide."""
        return max(0.0, self.took - self.hidden)


@dataclass(frozen=True)
class ParameterCheck:
    """What an optimizer's parameters were after a step: a sum of bits for each; and how many had no gradient."""

    step: int
    optimizer: int
    sums: tuple[int, ...]
    names: tuple[str, ...] | None
    without_gradient: int
    losses: int = 0
    """That have gone backward up to here, in steps that were looked at."""
    graphs: int = 0
    """Of those, kept alive by something."""
    reduced: int = 0
    """Parameters whose gradient the program had all ranks add up before the step; looked at in the first ones."""
    joined: bool = False
    """Models were trained under `join()`: a rank that has joined early makes fewer steps, so that numbers of steps say
    nothing of other ranks."""


@dataclass(frozen=True)
class Written:
    """A file was saved by `torch.save`, or opened for writing by the user's own code (`mode`). `exchanges` counts the
    collectives that the program had called until then."""

    path: str
    step: int
    place: Location | None
    mode: str = ""
    at: float = 0.0
    exchanges: int = 0
    shards: int = 0
    """Tensors in it of which other ranks have the rest."""
    own: bool = True
    """The program itself has called what writes it, and not a library that the program called."""


@dataclass(frozen=True)
class Process:
    """One process of the program, and what it did. `rank` is None where it never had one."""

    pid: int
    parent: int
    rank: int | None
    world: int
    local_rank: int | None
    host: str
    main: str
    torch: str
    node: int | None = None
    """Which of several nodes it is on, as torch's launcher counts them."""
    on_node: int | None = None
    """Ranks of the job on its node, as torch's launcher tells."""
    backend: str = ""
    groups: tuple[RecordedGroup, ...] = ()
    subgroups: tuple[Subgroup, ...] = ()
    wraps: tuple[RecordedWrap, ...] = ()
    optimizers: tuple[RecordedOptimizer, ...] = ()
    samplers: tuple[Shared, ...] = ()
    passes: tuple[Pass, ...] = ()
    steps: tuple[Step, ...] = ()
    checks: tuple[ParameterCheck, ...] = ()
    exposed: tuple[Exposed, ...] = ()
    losses: tuple[Loss, ...] = ()
    clips: tuple[Clip, ...] = ()
    averaged_again: tuple[Again, ...] = ()
    stepped_early: tuple[SteppedEarly, ...] = ()
    gathered_into_one: tuple[GatheredIntoOne, ...] = ()
    inputs: tuple[str, ...] = ()
    """Names of the content of what the first training forwards of wrappers were given."""
    loggers: tuple[Logger, ...] = ()
    sums: tuple[Sum, ...] = ()
    reads: tuple[TensorRead, ...] = ()
    between_steps: tuple[BetweenSteps, ...] = ()
    saves: tuple[Written, ...] = ()
    opens: tuple[Written, ...] = ()
    collectives: tuple[RecordedCollective, ...] = ()
    crash: Crash | None = None
    hidden: tuple[Hidden, ...] = ()
    norms: tuple[Norms, ...] = ()
    searches: tuple[Search, ...] = ()
    calls: tuple[Calls, ...] = ()
    seeds: tuple[Seed, ...] = ()
    on_sigterm: tuple[OnSigterm, ...] = ()
    generators: tuple[GeneratorStates, ...] = ()
    """After each of the first steps."""
    splits: tuple[RecordedSplit, ...] = ()
    failures: tuple[Failure, ...] = ()
    fetches: tuple[Fetch, ...] = ()
    option: RecordedOption | None = None
    refused: tuple[Refused, ...] = ()
    accelerators: tuple[RecordedAccelerator, ...] = ()
    divided: tuple[DividedAgain, ...] = ()
    shared_again: tuple[SharedAgain, ...] = ()
    padding: tuple[GatheredPadding, ...] = ()
    schedules: tuple[RecordedSchedule, ...] = ()
    drawn: tuple[Drawn, ...] = ()
    cut_up: tuple[LayersCutUp, ...] = ()
    compiled: tuple[Compiled, ...] = ()
    engines: tuple[RecordedEngine, ...] = ()
    backwards: int = 0
    backward: Location | None = None
    """Where the first one was called."""
    counted: int = 0
    """Steps that it has told of, also of those that are not in `steps`."""
    over: bool = False
    """It came to its end by itself."""
    left: Location | None = None
    """Where it did so by `sys.exit`."""
    fatal: Fatal | None = None
    terminated: Terminated | None = None
    cost: float = 0.0
    faults: tuple[str, ...] = ()

    @property
    def made(self) -> int:
        """How many steps it made; not each step of a long run is in `steps`."""
        return max(self.steps[-1].number, self.counted) if self.steps else 0

    @property
    def missed_another_at(self) -> Location | None:
        """Where it lost another rank first, and the program caught that and went on."""
        lost = (each for each in self.failures if Crash(each.type, each.text, each.step, ()).lost_connection)
        return next((each.place for each in lost), None)

    @property
    def training_passes(self) -> tuple[Pass, ...]:
        return tuple(each for each in self.passes if each.trains)

    @property
    def later_epochs(self) -> tuple[Pass, ...]:
        """Those behind the first of them."""
        return self.training_passes[1:]

    @property
    def evaluations(self) -> tuple[Pass, ...]:
        return tuple(each for each in self.passes if not each.trains and each.batches)


@dataclass(frozen=True)
class Drift:
    """The ranks hold different values in a parameter. `step` is the first at which that was seen."""

    step: int
    name: str
    optimizer: RecordedOptimizer

    @property
    def place(self) -> Location | None:
        """Where the gradients come from with which the ranks step."""
        return self.optimizer.backward or self.optimizer.place


@dataclass(frozen=True)
class Uneven:
    """One rank has gone through its loader to the end (`over`), and another has more batches in the same pass
    (`going_on`)."""

    short: int
    longer: int
    over: Pass
    going_on: Pass


@dataclass(frozen=True)
class Waiting:
    """Where a rank stood when the ranks did not advance any more. `collective` is what it waits in, None where it is
    elsewhere; `stack` is innermost first. `silence` says why it could not tell: `has ended`, `is stopped`, `does not
    answer`, or `cannot be reached`."""

    rank: int
    place: Location | None
    function: str
    collective: RecordedCollective | None
    stack: tuple[StackFrame, ...]
    waits: bool = False
    """It waits for other ranks, also where its collective is not known."""
    silence: str = ""
    steps: int = 0
    """That it had made."""
    batches: int = 0
    """That its loaders had handed out."""
    transferred: int = 0
    """Bytes over its connections."""
    works: bool = False
    """It computes while the others wait for it, and may only be slow."""
    kernel: str = ""
    """The function of the kernel in which it sleeps, where it does not answer."""
    told: str = ""
    """What NCCL says of it, where it is on another node, or the stand-in for NCCL: it came with something else."""
    before: Location | None = None
    """Where the program called the last collective that this rank has done."""
    root: str = ""
    """What the program has named in the collective, as `src=0`."""
    worker: Location | None = None
    """Where a worker of its loader stands, for which it waits."""

    def crosses(self, other: Waiting) -> bool:
        """Both wait in collectives of two groups to which both of them belong: neither comes to that of the other."""
        mine, theirs, both = self.collective, other.collective, {self.rank, other.rank}
        if mine is None or theirs is None or mine.group == theirs.group:
            return False
        return both.issubset(mine.members) and both.issubset(theirs.members)

    @property
    def asks_for_state(self) -> bool:
        """The program has called what puts a sharded state together."""
        return is_inside_of(STATES, self.stack)

    @property
    def brings_another_size(self) -> bool:
        """It came with the same call as another rank, and with more or fewer bytes."""
        names = self.told.split("`")[1::2]
        return len(names) == 2 and names[0] == names[1]

    @property
    def loads(self) -> bool:
        """It waits for the workers of a loader."""
        return is_inside_of(("torch/utils/data/dataloader.py",), self.stack)

    @property
    def asks_somebody(self) -> bool:
        """It stands in Python's debugger, or in one that is made of it."""
        return any(frame.function == "interaction" and not frame.own for frame in self.stack)

    @property
    def at_its_end(self) -> bool:
        """Python has done all that the program says, and waits for its threads."""
        return bool(self.stack) and self.stack[-1].function == "_shutdown" and not self.stack[-1].own

    @property
    def receives(self) -> bool:
        """It waits for what one other rank sends."""
        return self.waits and any(frame.function == "recv" and not frame.own for frame in self.stack)


@dataclass(frozen=True)
class Recording:
    """A run: its ranks in order, and the processes that had no rank. `status` is the exit code, None where it was
    ended by us."""

    ranks: tuple[Process, ...]
    others: tuple[Process, ...] = ()
    status: int | None = 0
    hang: tuple[Waiting, ...] = ()
    seconds: float = 0.0
    told_to_end: float | None = None
    """When SIGTERM came, in seconds since the epoch."""
    faults: tuple[str, ...] = ()
    """Errors of gpudoctor beside the ranks, for which something may not have been seen."""
    suspected: frozenset[str] = frozenset()
    """The codes of what lint finds in the program. Where a run looks the same for two mistakes, they tell which it
    is."""
    suspected_at: frozenset[tuple[str, str, int]] = frozenset()
    """The same with the lines that they name: code, the file's real path, line."""
    stands_at: frozenset[tuple[str, str, int]] = frozenset()
    """Those of these lines at which a finding stands: others led there."""
    virtual: bool = False
    """Its GPUs were virtual: where tensors live and what ranks exchange is true, times and memory are not."""
    skipped_kernels: tuple[str, ...] = ()
    """Modules that a stand-in replaced, which computes nothing."""

    def beside(self, findings: Sequence[Finding]) -> Recording:
        """The same with what lint finds in the program: each line that a finding names, and those that led to it."""
        here = frozenset(_line_of(each.code, each.location) for each in findings)
        there = (_line_of(each.code, one.location) for each in findings for one in each.related)
        codes = frozenset(each.code for each in findings)
        return replace(self, suspected=codes, suspected_at=here.union(there), stands_at=here)

    def suspects(self, code: str, place: Location) -> bool:
        """A finding of lint names the line."""
        return _line_of(code, place) in self.suspected_at

    def finds(self, code: str, place: Location) -> bool:
        """A finding of lint stands at the line."""
        return _line_of(code, place) in self.stands_at

    @cached_property
    def timed_ranks(self) -> tuple[Process, ...]:
        """The ranks whose times and memory say something."""
        return () if self.virtual else self.ranks

    @cached_property
    def distributed(self) -> bool:
        """Several processes trained together."""
        return len(self.ranks) > 1

    @cached_property
    def others_elsewhere(self) -> bool:
        """Ranks of the job are on other nodes: they are in the reports of those."""
        many = len({each.host for each in self.ranks}) > 1
        return not many and any(each.on_node is not None and each.on_node < each.world for each in self.ranks)

    @cached_property
    def ended_well(self) -> bool:
        """It trained, and came to its end."""
        return self.trained and self.status == 0 and not self.hang

    @cached_property
    def makes_group(self) -> bool:
        """Some process made a process group, or the code that failed would have made one."""
        every = (*self.ranks, *self.others)
        return any(each.groups or (each.crash is not None and each.crash.near_group) for each in every)

    @cached_property
    def trained(self) -> bool:
        """Some rank made a step."""
        return any(each.steps for each in self.ranks)

    @cached_property
    def all_read_data(self) -> bool:
        """Several ranks have each trained on batches of a loader: of the whole of the data, or of a share."""
        return self.distributed and all(rank.training_passes for rank in self.ranks)

    @cached_property
    def drift(self) -> Drift | None:
        """The first step after which parameters that all ranks hold were seen to differ."""
        checks = [{(each.step, each.optimizer): each for each in rank.checks} for rank in self.ranks]
        if not self.distributed or any(each.sharded for rank in self.ranks for each in rank.optimizers):
            return None
        for key in sorted(set.intersection(*(set(each) for each in checks))):
            seen = [each[key] for each in checks]
            # Ranks that hold different models have divided one among them.
            differ = len({len(each.sums) for each in seen}) == 1 and len({each.sums for each in seen}) > 1
            if differ and not any(each.joined for each in seen) and not self._unchanged(key[1]):
                return self._drift(key, seen)
        return None

    def _unchanged(self, optimizer: int) -> bool:
        """No step of it changed anything on any rank: what nobody trains does not drift apart."""
        sums = [[each.sums for each in rank.checks if each.optimizer == optimizer] for rank in self.ranks]
        return all(len(each) > 1 and len(set(each)) == 1 for each in sums)

    def _drift(self, key: tuple[int, int], seen: Sequence[ParameterCheck]) -> Drift | None:
        place = next(i for i, sums in enumerate(zip(*(each.sums for each in seen), strict=True)) if len(set(sums)) > 1)
        first = next((each for each in self.ranks[0].checks if each.optimizer == key[1] and each.names), None)
        optimizer = next((each for each in self.ranks[0].optimizers if each.number == key[1]), None)
        if optimizer is None:
            return None
        return Drift(key[0], first.names[place] if first and first.names else f"number {place}", optimizer)

    @cached_property
    def drift_beside_shards(self) -> Drift | None:
        """The first step after which a parameter differed that each rank holds whole, where others are sharded."""
        for optimizer in self.ranks[0].optimizers if self.distributed else ():
            number, whole = optimizer.number, optimizer.whole
            checks = [{each.step: each for each in rank.checks if each.optimizer == number} for rank in self.ranks]
            for step in sorted(set.intersection(*(set(each) for each in checks))) if whole else ():
                seen = [each[step].sums for each in checks]
                at = next((at for at in whole if len({sums[at] for sums in seen if at < len(sums)}) > 1), None)
                if at is not None:
                    names = next((each.names for each in checks[0].values() if each.names), None)
                    return Drift(step, names[at] if names else f"number {at}", optimizer)
        return None

    @cached_property
    def uneven(self) -> Uneven | None:
        """The pass in which one rank ran out of batches, where the others were stopped by that."""
        crashes = [crash for _, crash in self.crashes()]
        # Whoever failed for a reason of his own is why the others did not go on.
        if not (self.hang or crashes) or not all(each.lost_connection for each in crashes):
            return None
        for short, longer in permutations(self.ranks, 2):
            later = {(each.number, each.loader): each for each in longer.training_passes}
            for over in short.training_passes:
                going_on = later.get((over.number, over.loader))
                if going_on is None or not over.learns_from_all:
                    continue
                # Gradients do not tell of which epoch they are: whoever has fewer batches is missed at the very end.
                earlier = going_on.learns_from_all and going_on.batches > over.batches
                if earlier or _goes_on(longer, going_on, over):
                    return Uneven(short.rank or 0, longer.rank or 0, over, going_on)
        return None

    @cached_property
    def frozen_in_wrapper(self) -> bool:
        """When a rank failed, fewer parameters of a wrapper were trainable than when that was made."""
        ends = [(rank, dict(rank.crash.trainable)) for rank in self.ranks if rank.crash is not None]
        return any(left.get(wrap.id, wrap.trainable) < wrap.trainable for rank, left in ends for wrap in rank.wraps)

    @cached_property
    def averages_by_hand(self) -> bool:
        """Besides what wrappers do, ranks exchange parts of tensors, or ones larger than a metric, while they train."""
        called = (each for rank in self.ranks for each in rank.collectives if not each.of_wrapper)
        return any(
            each.place is not None and (each.elements > _METRIC or each.name.startswith(_NO_METRIC)) for each in called
        )

    @property
    def runs_eagerly(self) -> bool:
        """Something would have been compiled, and virtual GPUs compile nothing."""
        return self.virtual and any(each.compiled for each in (*self.ranks, *self.others))

    def named(self, ranks: Sequence[int]) -> str:
        """`Every rank`, `Rank 1`, `Ranks 0 and 2`, or `The process`, to begin a sentence with."""
        if not ranks:
            return "The process"
        if len(ranks) == 1 and len(self.ranks) > 1:
            return f"Rank {ranks[0]}"
        if len(ranks) >= len(self.ranks):
            return "Every rank" if len(self.ranks) > 1 else "The process"
        return f"Ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"

    def crashes(self) -> Iterator[tuple[Process, Crash]]:
        """The processes that raised, with what they raised.

        A launcher that only reports them is none of them. The parent of `mp.spawn` is: its error holds the one of the
        rank, and stands where the user started it, which is the only place of an error in the call itself.
        """
        for each in (*self.ranks, *self.others):
            if (crash := each.crash) is None:
                continue
            if crash.type.endswith(QUOTES_ITS_RANK) or not crash.type.endswith(OF_LAUNCHERS):
                yield each, crash


def _line_of(code: str, place: Location) -> tuple[str, str, int]:
    return code, os.path.realpath(place.path), place.line


def _goes_on(rank: Process, here: Pass, over: Pass) -> bool:
    """The rank has more batches than those of `over`, and did not come to the end of them."""
    # What a pass has done is written down now and then; how many steps were made is known better.
    made = rank.made - here.first_step
    return not here.ended and here.number == rank.passes[-1].number and made >= over.steps
