"""The summary of a probe: what was examined, the verdicts with what to do, and the table of the articles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.cli.probe_diff import changes
from gpudoctor.probe.results import Verdict
from gpudoctor.report.text import wrap

if TYPE_CHECKING:
    from gpudoctor.probe.results import Check, ProbedMachine, ProbeReport, StepResult
    from gpudoctor.report.text import Style

_LOOKS = {
    Verdict.FAIL: "error",
    Verdict.WARN: "warning",
    Verdict.INCONCLUSIVE: "info",
    Verdict.PASS: "help",
    Verdict.SKIPPED: "dim",
}
_NAMES = 26


def summary(report: ProbeReport, style: Style) -> Iterator[str]:
    """The report in lines that fit a screen: what went wrong comes last but one, above the one line that sums it up."""
    yield from _machines(report, style)
    for note in report.notes:
        yield from wrap(note, style.width, "  ")
    if report.steps:
        yield ""
        yield from _table(report.steps, style)
    yield ""
    yield from _checks(report, style)
    yield ""
    if report.comparison is not None:
        yield from changes(report.comparison, style)
        yield ""
    yield _last_line(report, style)


def _machines(report: ProbeReport, style: Style) -> Iterator[str]:
    for machine in report.machine:
        version = machine.torch.get("version")
        torch = f"torch {version.value}" if version is not None and version.value else "no torch"
        yield style.paint(f"{machine.host}: {_gpus(machine)}, {torch}", "bold")
    if report.world_size:
        where = {"cpu": "the CPU", "cuda": "GPUs"}.get(report.device, report.device)
        yield f"  {report.world_size} ranks on {where} over {report.backend}"


def _gpus(machine: ProbedMachine) -> str:
    names: dict[str, int] = {}
    for gpu in machine.gpus:
        name = gpu.facts.get("name")
        shown = str(name.value) if name is not None and name.value else "GPU"
        names[shown] = names.get(shown, 0) + 1
    return ", ".join(f"{count} x {name}" for name, count in names.items()) or "no GPU"


def _table(steps: Sequence[StepResult], style: Style) -> Iterator[str]:
    """The table of the articles, for this machine: set-up, time, speed-up."""
    rows = [row for row in steps if row.seconds_per_epoch is None]
    head = f"  {'set-up':<34}{'ms a step':>10}{'samples/s':>12}{'speed-up':>10}{'of linear':>11}"
    yield style.paint(head.rstrip(), "dim")
    for row in rows:
        yield f"  {_setup(row):<34}{_figures(row)}"
    yield from _epochs(row for row in steps if row.seconds_per_epoch is not None)
    for note in dict.fromkeys(row.note for row in rows if row.note):
        yield style.paint(f"  times {note}", "dim")


def _epochs(rows: Iterable[StepResult]) -> Iterator[str]:
    for row in rows:
        figures = (
            f"{row.seconds_per_epoch:.1f} s an epoch, {row.accuracy:.1%} right, {row.loader_wait:.0%} waiting for data"
        )
        yield f"  {_setup(row):<34}{figures}"


def _setup(row: StepResult) -> str:
    strong = ", same total batch" if row.scaling == "strong" else ""
    return f"{row.workload}, {row.strategy} x {row.world_size}{strong}"


def _figures(row: StepResult) -> str:
    rate = row.samples_per_second
    time = f"{1000 * row.seconds_per_step:.2f}" if row.seconds_per_step is not None else "-"
    speed = f"{rate.mean:.0f}" if rate is not None else "-"
    # Where speed says nothing, a ratio of speeds would be taken for a result.
    gain = f"{row.speedup:.2f}" if row.speedup is not None and row.meaningful else "-"
    share = f"{row.efficiency:.0%}" if row.efficiency is not None and row.meaningful else "-"
    return f"{time:>10}{speed:>12}{gain:>10}{share:>11}"


def _checks(report: ProbeReport, style: Style) -> Iterator[str]:
    for verdict in (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.WARN, Verdict.FAIL):
        for check in report.checks:
            if check.verdict is verdict and check not in report.not_judged.get((verdict, check.reason), ()):
                yield from _check(check, style)
    for (verdict, reason), checks in report.not_judged.items():
        first = f"  {verdict.value:<13}"
        names = ", ".join(check.name for check in checks)
        lines = wrap(f"{names}: {reason}", style.width, " " * len(first), first)
        yield from (style.paint(line, "dim") for line in lines)


def _check(check: Check, style: Style) -> Iterator[str]:
    sign = f"  {check.verdict.value:<13}"
    first = f"{sign}{check.name:<{_NAMES}}"
    lines = wrap(check.reason, style.width, " " * len(sign), first)
    lines[0] = style.paint(sign, _LOOKS[check.verdict]) + lines[0][len(sign) :]
    yield from lines
    if check.verdict is not Verdict.PASS:
        if check.expectation:
            text = f"expected {check.expectation}" + (f" ({check.source})" if check.source else "")
            yield from (style.paint(line, "dim") for line in wrap(text, style.width, " " * len(sign)))
        if check.remedy:
            yield from wrap(check.remedy, style.width, " " * (len(sign) + 3), f"{' ' * len(sign)}-> ")


def _last_line(report: ProbeReport, style: Style) -> str:
    counts = {verdict: sum(check.verdict is verdict for check in report.checks) for verdict in Verdict}
    words = {
        Verdict.FAIL: "failed",
        Verdict.WARN: "with a warning",
        Verdict.INCONCLUSIVE: "inconclusive",
        Verdict.PASS: "passed",
        Verdict.SKIPPED: "skipped",
    }
    parts = [f"{counts[verdict]} {word}" for verdict, word in words.items() if counts[verdict]]
    text = f"{', '.join(parts)} in {report.seconds:.0f} s"
    if report.started:
        text += f", started {report.started}"
    if report.interrupted:
        text = f"interrupted; until then {text}"
    return style.paint(text, "error" if report.failed else "bold")
