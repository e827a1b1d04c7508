"""Gates for CI: `--require ddp-efficiency>=0.8` makes a figure a condition."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence

from gpudoctor.errors import UsageError, nearest
from gpudoctor.probe.checks import EXAMINATIONS, SWEEP
from gpudoctor.probe.results import Check, Verdict
from gpudoctor.record import dataclass

_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}
NAMES = (
    "ddp-efficiency",
    "ddp-strong-efficiency",
    "exposed-communication",
    "gpus-busy",
    "bus-bandwidth",
    "training-works",
    *(each.name for each in (*EXAMINATIONS, SWEEP)),
)
"""Checks that have a figure."""


@dataclass(frozen=True)
class Gate:
    """The figure of the check `name` must compare to `value` as `sign` says; `text` is what the user wrote."""

    name: str
    sign: str
    value: float
    text: str


def read_gate(text: str) -> Gate:
    """The gate that `NAME>=X` describes; X is a number, or a percentage.

    Raises UsageError where it cannot be read, or names no check that has a figure.
    """
    found = re.fullmatch(r"\s*([\w-]+)\s*(>=|<=|==|>|<)\s*([-+.\deE]+)\s*(%?)\s*", text)
    if not found:
        raise UsageError(f"--require {text}: write it as `NAME>=X`, such as `ddp-efficiency>=0.8`")
    name, sign, number, percent = found.groups()
    if name not in NAMES:
        raise UsageError(f"--require {text}: there is no figure `{name}`{nearest(name, NAMES)}")
    try:
        value = float(number)
    except ValueError as error:
        raise UsageError(f"--require {text}: `{number}` is not a number") from error
    return Gate(name, sign, value / 100 if percent else value, text.strip())


def gated(gates: Iterable[Gate], checks: Sequence[Check]) -> tuple[Check, ...]:
    """One check for each gate: what was not measured well enough to judge by is not met."""
    return tuple(_gated(gate, next((check for check in checks if check.name == gate.name), None)) for gate in gates)


def _gated(gate: Gate, check: Check | None) -> Check:
    name, expectation, source = f"require {gate.name}", f"{gate.sign} {gate.value:g}", f"--require {gate.text}"
    if check is None or check.figure is None or check.verdict in (Verdict.SKIPPED, Verdict.INCONCLUSIVE):
        why = "it was not examined" if check is None else check.reason
        reason = f"{gate.name} was not judged: {why}"
        return Check(name, Verdict.FAIL, None, "", expectation, source, reason, "run it where this can be measured")
    met = _COMPARE[gate.sign](check.figure, gate.value)
    reason = f"{gate.name} is {check.figure:g} {check.unit}".rstrip()
    remedy = "" if met else check.remedy
    verdict = Verdict.PASS if met else Verdict.FAIL
    return Check(name, verdict, check.figure, check.unit, expectation, source, reason, remedy)
