"""The page as an outline: what is asked of a report for each part, and why a part is empty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from gpudoctor.html import figures
from gpudoctor.html.page_frame import environment
from gpudoctor.probe.page import words
from gpudoctor.probe.page.busy import busy_charts
from gpudoctor.probe.page.scaling import scaling_charts
from gpudoctor.probe.page.sweep import sweep_chart
from gpudoctor.probe.results import (
    Bandwidth,
    Direction,
    Fact,
    ProbedGpu,
    ProbedMachine,
    ProbeReport,
    StepResult,
    Verdict,
)
from gpudoctor.probe.verdict import expected_bandwidth
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from jinja2 import Environment

EPOCH = 50_000
_NOT_JUDGED = "not judged"
_URGENT = (Verdict.FAIL, Verdict.WARN, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.SKIPPED)
_SHOWN = (
    "name",
    "memory_total",
    "capability",
    "memory_used",
    "pcie_max_generation",
    "pcie_max_width",
    "nvlink_active",
    "temperature",
    "power_limit",
    "slowed_by",
    "ecc_uncorrected",
    "mig",
    "numa_node",
)
"""Of a GPU's fields, those that differ between sound and sick ones; the others stand in the JSON."""


_BYTES = ("memory_total", "memory_free", "memory_used", "memory_limit", "shm_total", "shm_free", "memlock")
_UNITS = {"temperature": "°C", "power_limit": "W", "clock_sm": "MHz", "clock_sm_max": "MHz"}
_ELSEWHERE = ("host", "wsl", "trouble", "nvml_indices", "visible_gpus", "not_finished")


@dataclass(frozen=True)
class Extra:
    """A column of the table of steps that is there where a figure was measured."""

    title: str
    of: Callable[[StepResult], str]


_EXTRAS = (
    Extra("exposed communication", lambda row: figures.percent(row.exposed_communication if row.meaningful else None)),
    Extra("wait for data", lambda row: figures.percent(row.loader_wait if row.meaningful else None)),
    Extra("peak memory", lambda row: figures.size(row.peak_memory)),
    Extra("TFLOP/s of ceiling", lambda row: _of_ceiling(row)),
    Extra("loss, first to last", lambda row: _losses(row)),
    Extra("accuracy", lambda row: figures.percent(row.accuracy)),
)


@dataclass(frozen=True)
class Columns:
    """The fields of the GPUs of a node: those that are the same on all, and the others."""

    alike: list[str]
    apart: list[str]


@dataclass(frozen=True)
class Sweep:
    """The table of the bandwidth sweep: a row for each size, a column for each collective."""

    collectives: tuple[str, ...]
    rows: tuple[tuple[int, tuple[Bandwidth | None, ...]], ...]


def page_of(report: ProbeReport) -> str:
    """The report as one HTML document."""
    speechless = words.why_no_speed(report)
    template = _environment().get_template("probe.html.j2")
    page: str = template.render(
        report=report,
        checks=sorted(
            (check for check in report.checks if check not in report.not_judged.get((check.verdict, check.reason), ())),
            key=lambda check: _URGENT.index(check.verdict),
        ),
        counts={verdict: sum(check.verdict is verdict for check in report.checks) for verdict in _URGENT},
        heading=", ".join(f"{machine.host}: {_models(machine)}" for machine in report.machine) or "no machine",
        changes=_changes(report),
        speechless=speechless,
        workloads=_by_workload(report.steps),
        scaling=list(scaling_charts(report)),
        no_scaling=words.why_no_scaling(report),
        bandwidth=sweep_chart(report),
        expected=expected_bandwidth(report.machine),
        sweep=_sweep(report.bandwidth),
        no_bandwidth=_why_no_bandwidth(report),
        busy=list(busy_charts(report)),
        no_samples=_why_no_samples(report),
        machines=[(machine, _columns(machine.gpus)) for machine in report.machine],
    )
    return page


def _environment() -> Environment:
    found = environment("gpudoctor.probe.page")
    found.filters.update(
        interval=words.interval,
        setup=words.setup,
        workload=words.workload,
        fact=words.value,
        direction=words.DIRECTIONS.__getitem__,
        mark=words.MARKS.__getitem__,
        told=_told,
        told_fact=_told_fact,
        epoch=_epoch,
        signed=lambda share: f"{share:+.0%}",
    )
    found.globals.update(
        measured=words.measured,
        gain=_gain,
        of_linear=_of_linear,
        extras_of=_extras,
        link_between=_link,
        hidden_facts=_ELSEWHERE,
    )
    return found


def _models(machine: ProbedMachine) -> str:
    names = [words.value(gpu.facts.get("name")) or "GPU" for gpu in machine.gpus]
    return ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)) or "no GPU"


def _changes(report: ProbeReport) -> list[tuple[Direction, Any]]:
    if report.comparison is None:
        return []
    return [(direction, found) for direction in Direction if (found := report.comparison.of(direction))]


def _sweep(rows: Sequence[Bandwidth]) -> Sweep:
    """The table of those that say something."""
    found: dict[tuple[int, str], Bandwidth] = {(row.bytes, row.collective): row for row in rows if row.meaningful}
    names = tuple(dict.fromkeys(name for _, name in found))
    sizes = sorted({size for size, _ in found})
    return Sweep(names, tuple((size, tuple(found.get((size, name)) for name in names)) for size in sizes))


def _why_no_bandwidth(report: ProbeReport) -> str:
    if not report.bandwidth:
        return "collectives were not timed: " + (
            "one rank alone sends nothing" if report.world_size == 1 else "no ranks got as far as that"
        )
    if report.device == "cpu":
        return "bandwidth was not judged: there is no GPU; what the CPU took stands in the JSON"
    return "bandwidth was not judged: the ranks share one GPU, and pass everything through the memory of the machine"


def _why_no_samples(report: ProbeReport) -> str:
    if report.device == "cpu" or not any(machine.gpus for machine in report.machine):
        return "utilisation was not sampled: there is no GPU"
    if not report.steps:
        return "utilisation was not sampled: nothing was trained"
    return "utilisation was not sampled: NVML is missing, or does not tell it for these GPUs"


def _columns(gpus: Sequence[ProbedGpu]) -> Columns:
    """The fields that are shown of these GPUs: what all have in common once, the rest for each."""
    known = [name for name in _SHOWN if any(name in gpu.facts for gpu in gpus)]
    alike = [name for name in known if len({_told(name, gpu) for gpu in gpus}) == 1]
    return Columns(alike, [name for name in known if name not in alike])


def _by_workload(steps: Sequence[StepResult]) -> dict[str, list[StepResult]]:
    found: dict[str, list[StepResult]] = {}
    for row in steps:
        found.setdefault(row.workload, []).append(row)
    return found


def _epoch(row: StepResult) -> str:
    """The articles' time: for as many samples as CIFAR-10 has, so that set-ups with several batches compare."""
    if not row.meaningful:
        return _NOT_JUDGED
    if row.seconds_per_epoch is not None:
        return figures.duration(row.seconds_per_epoch)
    rate = row.samples_per_second
    return figures.duration(EPOCH / rate.mean) if rate is not None and rate.mean > 0 else figures.NONE


def _speedup(row: StepResult, rows: Sequence[StepResult]) -> float | None:
    """Of an epoch it follows from the times, which is all that was measured there."""
    if row.speedup is not None or not row.seconds_per_epoch:
        return row.speedup
    alone = next((each.seconds_per_epoch for each in rows if each.strategy == "single"), None)
    return alone / row.seconds_per_epoch if alone else None


def _gain(row: StepResult, rows: Sequence[StepResult]) -> str:
    return figures.number(_speedup(row, rows)) if row.meaningful else _NOT_JUDGED


def _of_linear(row: StepResult, rows: Sequence[StepResult]) -> str:
    gain = _speedup(row, rows)
    share = gain / row.world_size if row.efficiency is None and gain is not None else row.efficiency
    return figures.percent(share) if row.meaningful else _NOT_JUDGED


def _extras(rows: Sequence[StepResult]) -> list[Extra]:
    return [extra for extra in _EXTRAS if any(extra.of(row) != figures.NONE for row in rows)]


def _losses(row: StepResult) -> str:
    # Where speed says nothing, this is what the row is for.
    if row.meaningful or row.first_loss is None or row.last_loss is None:
        return figures.NONE
    return f"{figures.number(row.first_loss)} to {figures.number(row.last_loss)}"


def _of_ceiling(row: StepResult) -> str:
    # A net so small that its share of the ceiling rounds to nothing says nothing by it.
    if row.tflops is None or row.ceiling_tflops is None or not row.meaningful or row.tflops < 0.01:
        return figures.NONE
    return f"{figures.number(row.tflops)} of {figures.number(row.ceiling_tflops)}"


def _link(machine: ProbedMachine, one: str, other: str) -> str:
    """How two GPUs are joined, as a cell of the matrix."""
    found = [link for link in machine.links if {link.a, link.b} == {one, other}]
    if one == other or not found:
        return "\N{MIDDLE DOT}"
    direct = found[0].p2p.value in (True, "ok", None)
    return (words.value(found[0].kind) or "?") + ("" if direct else "*")


def _told(name: str, gpu: ProbedGpu) -> str:
    fact = gpu.facts.get(name)
    if fact is None or fact.value is None:
        return f"not available: {fact.because}" if fact is not None and fact.because else "not available"
    return _told_fact(name, fact)


def _told_fact(name: str, fact: Fact) -> str:
    """A field that is known, with what its number counts."""
    if name in _BYTES and not isinstance(fact.value, (str, list)):
        return figures.size(fact.value)
    unit = _UNITS.get(name, "")
    return f"{words.value(fact)}\N{NO-BREAK SPACE}{unit}" if unit else words.value(fact) or "none"
