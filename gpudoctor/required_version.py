"""Whether this gpudoctor is one of those that a settings file is for."""

from __future__ import annotations

import operator
import re

from gpudoctor import __version__
from gpudoctor.errors import ConfigError

_CONDITION = re.compile(r"(?P<sign>>=|<=|==|!=|~=|>|<|)\s*v?(?P<version>\d+(?:\.\d+)*)")
_COMPARISONS = {
    "": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def refuse_other_version(wanted: object, path: str, version: str = __version__) -> None:
    """Raise an error where `wanted`, as `0.2`, `>=0.2` or `>=0.2,<0.4`, does not allow this version."""
    where = f"{path}: `required-version`"
    if not isinstance(wanted, str):
        raise ConfigError(f"{where} must be a string, not {wanted!r}")
    conditions = [_CONDITION.fullmatch(part.strip()) for part in wanted.split(",")]
    if not all(conditions):
        raise ConfigError(f'{where} must be versions of gpudoctor such as ">=0.1,<0.3", not {wanted!r}')
    if not all(_holds(each["sign"], each["version"], version) for each in conditions if each):
        raise ConfigError(f"{where} is {wanted}, and this is gpudoctor {version}: install one of those")


def _holds(sign: str, wanted: str, version: str) -> bool:
    here, there = _numbers(version), _numbers(wanted)
    if sign == "~=":
        # As packaging has it: not older, and alike in all but the last number.
        return here >= there and here[: wanted.count(".")] == there[: wanted.count(".")]
    return bool(_COMPARISONS[sign](here, there))


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a release; what comes behind them, as `.dev3`, says nothing of what it can do."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    # `0.2` and `0.2.0` are one version.
    return tuple(numbers + [0] * (_MOST - len(numbers)))


_MOST = 8
