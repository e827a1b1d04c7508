"""The last line: how much was found, and where to read on."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.page_address import read_more

_NOUNS = {
    Severity.ERROR: ("error", "errors"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.PERF: ("perf finding", "perf findings"),
    Severity.INFO: ("suggestion", "suggestions"),
}


def summary(
    findings: Sequence[Finding],
    files: int,
    missed: int = 0,
    *,
    partly: bool = False,
    without_pytorch: bool = False,
    only_new: bool = False,
) -> str:
    """`Found 2 errors and 1 warning in 3 files.`, with a hint how to read on.

    That there is no mistake is said only of files that were followed: of `missed` ones the training was not reached.
    `partly` says that in some of the others not all rules were checked, `without_pytorch` that none trains, and
    `only_new` that findings may have been left out, as those of a baseline are.
    """
    if not files:
        return "There is no Python file to read."
    none = "No new mistake" if only_new else "No mistake"
    if not findings and missed >= files:
        return f"{none} found in what was followed of {_files(files)}."
    if not findings and without_pytorch and not missed:
        names = "the file names" if files == 1 else f"the {files} files name"
        return f"Nothing to check: {names} neither PyTorch nor a library known to train with it."
    by = " by the rules that were checked" if partly else ""
    if not findings and missed:
        told = f"{missed} {'was' if missed == 1 else 'were'} not followed to the end"
        return f"{none} found in {files - missed} of {_files(files)}{by}; {told}."
    if not findings:
        return f"{none} found in {_files(files)}{by}."
    # Not the files that were named: a mistake often stands in one that they import.
    where = _files(len({finding.location.path for finding in findings}))
    worst = max(findings, key=lambda finding: finding.severity.weight)
    return f"Found {_counts(findings)} in {where}. Read more: {read_more(worst.code, worst.name)}"


def _files(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"


def _counts(findings: Sequence[Finding]) -> str:
    counts = []
    for severity, (one, many) in _NOUNS.items():
        number = sum(finding.severity is severity for finding in findings)
        if number:
            counts.append(f"{number} {one if number == 1 else many}")
    return " and ".join([", ".join(counts[:-1]), counts[-1]] if len(counts) > 1 else counts)
