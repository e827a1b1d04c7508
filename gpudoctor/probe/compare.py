"""A probe against an earlier one: what got worse or better by more than noise. Pure.

A figure with a confidence interval has changed where the two intervals lie apart and the means differ by more than
two runs of one healthy machine do; any other figure where it differs by more than a stated share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gpudoctor.probe.environment_diff import surroundings
from gpudoctor.probe.results import Bandwidth, Change, Check, Comparison, Direction, ProbeReport, StepResult, Verdict
from gpudoctor.probe.step_figures import efficiency_range
from gpudoctor.record import dataclass

DRIFT = 0.02
"""Ours: so far two runs may lie apart although nothing changed, as clocks and temperature do; no interval shows it."""
NOISE = 0.05
"""For a figure without an interval; SuperBench calls a node defective from 5 % below its baseline on."""
POINTS = 0.05
"""For a share of the step: five of a hundred."""
ACCURACY = 0.02
"""Two seeds of one training differ by as much."""
_SAME_MODEL = 0.01
_ORDER = {Verdict.PASS: 0, Verdict.WARN: 1, Verdict.FAIL: 2}


@dataclass(frozen=True)
class _Pair:
    """One thing in both reports; `beyond` says why the difference is more than noise, and is empty where it is not."""

    what: str
    before: float | str
    after: float | str
    unit: str = ""
    good: bool = True
    beyond: str = ""
    direction: Direction | None = None


def compare(old: ProbeReport, new: ProbeReport, against: str = "the earlier report") -> Comparison:
    """What became of everything that both reports tell of; `against` is the file of the old one."""
    pairs = [*_verdicts(old, new), *_steps(old, new), *_bandwidths(old, new)]
    changes = [*(_change(pair) for pair in pairs if pair.beyond or pair.direction), *_new_and_gone(old, new)]
    order = list(Direction)
    return Comparison(
        against=against,
        # Of each kind verdicts first, then the figures that changed most.
        changes=tuple(sorted(changes, key=lambda each: (order.index(each.direction), *_weight(each)))),
        surroundings=tuple(surroundings(old, new)),
        same=sum(not pair.beyond and pair.direction is None for pair in pairs),
        notes=tuple(_notes(old, new)),
    )


def _change(pair: _Pair) -> Change:
    before, after = pair.before, pair.after
    if isinstance(before, str) or isinstance(after, str):
        return Change(pair.what, pair.direction or Direction.OTHER, before, after, because=pair.beyond)
    direction = Direction.BETTER if (after > before) == pair.good else Direction.WORSE
    # The ratio of two shares says little: from 1 to 3 % of the step is no disaster.
    relative = round(after / before - 1, 4) if before and pair.unit != "of the step" else None
    return Change(pair.what, direction, before, after, pair.unit, relative, pair.beyond)


def _weight(change: Change) -> tuple[bool, float]:
    return not isinstance(change.before or change.after, str), -abs(change.relative or 0.0)


def _notes(old: ProbeReport, new: ProbeReport) -> Iterator[str]:
    for report, which in ((old, "the earlier"), (new, "this")):
        if report.interrupted:
            yield f"{which} probe was interrupted: not all of it is there"
    for report, which in ((old, "the earlier"), (new, "this")):
        if report.steps and not any(row.meaningful for row in report.steps):
            yield f"speed was not compared: {report.steps[0].note or f'it says nothing in {which} report'}"
            return
    if old.world_size != new.world_size and old.world_size and new.world_size:
        yield f"{old.world_size} ranks then, {new.world_size} now: only what has the same number is compared"
    old_rows = _rows(old)
    for key, row in _rows(new).items():
        if key in old_rows and not _same_work(old_rows[key], row):
            yield f"{_named(row)} is not compared: the model or the batch was of another size"


# Verdicts.


def _verdicts(old: ProbeReport, new: ProbeReport) -> Iterator[_Pair]:
    before, after = _by_name(old), _by_name(new)
    for key, checks in after.items():
        for one, other in _matched(before.get(key, []), checks)[0]:
            yield _Pair(
                _what(other, new),
                one.verdict.value,
                other.verdict.value,
                beyond=other.reason if one.verdict is not other.verdict else "",
                direction=_turned(one.verdict, other.verdict),
            )


def _matched(old: list[Check], new: list[Check]) -> tuple[list[tuple[Check, Check]], list[Check], list[Check]]:
    """Checks of one name as pairs, and what is left of the old and of the new ones.

    There may be several: each GPU can have the same weak point, and the reason tells which one it is.
    """
    said = [check.reason for check in old]
    known = [check for check in new if check.reason in said]
    gone = [check for check in old if check.reason not in [check.reason for check in known]]
    fresh = [check for check in new if check.reason not in said]
    pairs = [(old[said.index(check.reason)], check) for check in known]
    count = min(len(gone), len(fresh))
    return [*pairs, *zip(gone, fresh, strict=False)], gone[count:], fresh[count:]


def _by_name(report: ProbeReport) -> dict[tuple[str, str], list[Check]]:
    """The checks by name and node; of a machine alone the host's name says nothing, a container's is made up."""
    found: dict[tuple[str, str], list[Check]] = defaultdict(list)
    for check in report.checks:
        found[check.name, check.node if len(report.machine) > 1 else ""].append(check)
    return found


def _turned(before: Verdict, after: Verdict) -> Direction | None:
    if before is after:
        return None
    if before not in _ORDER or after not in _ORDER:
        return Direction.WORSE if after is Verdict.FAIL else Direction.OTHER
    return Direction.WORSE if _ORDER[after] > _ORDER[before] else Direction.BETTER


def _new_and_gone(old: ProbeReport, new: ProbeReport) -> Iterator[Change]:
    before, after = _by_name(old), _by_name(new)
    for key in sorted(before.keys() | after.keys()):
        _, gone, fresh = _matched(before.get(key, []), after.get(key, []))
        for check in fresh:
            # A weak point is told only where there is one: to be new is to have got worse.
            direction = Direction.WORSE if _weak(check, new) else Direction.NEW
            yield Change(_what(check, new), direction, None, check.verdict.value, because=check.reason)
        for check in gone:
            direction = Direction.BETTER if _weak(check, old) else Direction.GONE
            yield Change(_what(check, old), direction, check.verdict.value, None, because=check.reason)


def _weak(check: Check, report: ProbeReport) -> bool:
    names = {weak.name for machine in report.machine for weak in machine.weak}
    return check.name in names and check.verdict in (Verdict.WARN, Verdict.FAIL)


def _what(check: Check, report: ProbeReport) -> str:
    return f"{check.name} on {check.node}" if check.node and len(report.machine) > 1 else check.name


# Training.

_Key = tuple[str, str, int, str, str]


def _rows(report: ProbeReport) -> dict[_Key, StepResult]:
    return {
        (row.workload, row.strategy, row.world_size, row.scaling, row.device): row
        for row in report.steps
        if row.meaningful
    }


def _steps(old: ProbeReport, new: ProbeReport) -> Iterator[_Pair]:
    before, after = _rows(old), _rows(new)
    for key, row in after.items():
        if key in before and _same_work(before[key], row):
            yield from _step(before[key], row)
            yield from _efficiency(before[key], row, old, new)


def _same_work(one: StepResult, other: StepResult) -> bool:
    """Whether both trained the same model: the transformer is sized to the memory that is free."""
    if one.batch_per_device != other.batch_per_device:
        return False
    first, second = _work(one), _work(other)
    return first is None or second is None or abs(second / first - 1) <= _SAME_MODEL


def _work(row: StepResult) -> float | None:
    """Arithmetic for one sample, in TFLOP, where it was counted."""
    rate = row.samples_per_second
    return row.tflops * row.world_size / rate.mean if row.tflops and rate is not None and rate.mean > 0 else None


def _named(row: StepResult) -> str:
    strong = ", total batch kept" if row.scaling == "strong" else ""
    return f"{row.workload}, {row.strategy} x {row.world_size}{strong}"


def _speed(old: StepResult, new: StepResult) -> Iterator[_Pair]:
    one, other = old.samples_per_second, new.samples_per_second
    if one is not None and other is not None:
        beyond = _apart(one.mean, (one.low, one.high), other.mean, (other.low, other.high))
        yield _Pair(f"speed of {_named(new)}", one.mean, other.mean, "samples/s", beyond=beyond)


def _step(old: StepResult, new: StepResult) -> Iterator[_Pair]:
    name = _named(new)
    yield from _speed(old, new)
    yield from _plain(f"peak memory of {name}", old.peak_memory, new.peak_memory, "bytes", good=False)
    yield from _plain(f"seconds an epoch of {name}", old.seconds_per_epoch, new.seconds_per_epoch, "s", good=False)
    for what, before, after, good, noise in (
        ("exposed communication of", old.exposed_communication, new.exposed_communication, False, POINTS),
        ("wait for data of", old.loader_wait, new.loader_wait, False, POINTS),
        ("accuracy of", old.accuracy, new.accuracy, True, ACCURACY),
    ):
        if before is not None and after is not None:
            beyond = f"more than {100 * noise:.0f} points of a hundred" if abs(after - before) > noise else ""
            unit = "" if good else "of the step"
            yield _Pair(f"{what} {name}", before, after, unit, good, beyond)
    if new.strategy == "single":
        yield from _plain(f"matrix products ({new.workload})", old.ceiling_tflops, new.ceiling_tflops, "TFLOP/s")


def _efficiency(before: StepResult, after: StepResult, old: ProbeReport, new: ProbeReport) -> Iterator[_Pair]:
    """Where one device alone is as fast as it was, the efficiency says what the speed has said already."""
    one, other = _alone(before, old), _alone(after, new)
    if after.world_size == 1 or before.efficiency is None or after.efficiency is None or not one or not other:
        return
    if any(pair.beyond for pair in _speed(one, other)):
        ranges = efficiency_range(before, one), efficiency_range(after, other)
        beyond = _apart(before.efficiency, ranges[0], after.efficiency, ranges[1])
        yield _Pair(f"efficiency of {_named(after)}", before.efficiency, after.efficiency, "of linear", beyond=beyond)


def _alone(row: StepResult, report: ProbeReport) -> StepResult | None:
    return next((each for each in report.steps if (each.workload, each.strategy) == (row.workload, "single")), None)


def _apart(before: float, one: tuple[float, float], after: float, other: tuple[float, float]) -> str:
    """Why a figure has changed by more than noise; empty where it has not."""
    if not before > 0 or abs(after / before - 1) <= DRIFT or (one[0] <= other[1] and other[0] <= one[1]):
        return ""
    return f"the 95 % intervals lie apart, by more than the {DRIFT:.0%} that two runs differ"


def _plain(what: str, before: float | None, after: float | None, unit: str, good: bool = True) -> Iterator[_Pair]:
    if before is not None and after is not None and before > 0:
        beyond = f"more than {NOISE:.0%}" if abs(after / before - 1) > NOISE else ""
        yield _Pair(what, before, after, unit, good, beyond)


# Collectives.


def _bandwidths(old: ProbeReport, new: ProbeReport) -> Iterator[_Pair]:
    """The best bus bandwidth of each collective: small messages are all latency, which varies too much to judge."""
    before, after = _sweeps(old.bandwidth), _sweeps(new.bandwidth)
    for key, sweep in after.items():
        sizes = sweep.keys() & before.get(key, {}).keys()
        if sizes:
            one, other = (max(each[size] for size in sizes) for each in (before[key], sweep))
            collective, dtype, ranks, backend = key
            yield from _plain(f"{collective} of {dtype} on {ranks} ranks ({backend}), at best", one, other, "GB/s")


def _sweeps(rows: Iterable[Bandwidth]) -> dict[tuple[str, str, int, str], dict[int, float]]:
    found: dict[tuple[str, str, int, str], dict[int, float]] = defaultdict(dict)
    for row in rows:
        if row.meaningful:
            found[row.collective, row.dtype, row.world_size, row.backend][row.bytes] = row.busbw
    return found
