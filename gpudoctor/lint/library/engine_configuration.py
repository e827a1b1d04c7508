"""The configuration of DeepSpeed, where it stands in the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.contents import pairs
from gpudoctor.lint.domain.container import DictOf
from gpudoctor.lint.domain.value import single_of, text_of

if TYPE_CHECKING:
    from gpudoctor.lint.domain.value import Value, Values
    from gpudoctor.lint.library_call import Call


def configuration(call: Call, *names: tuple[int, str]) -> dict[str, Values] | None:
    """The configuration of DeepSpeed that stands in the program; None where it lies in a file, or is not all known."""
    given = next((values for position, name in names if (values := call.arg(position, name)) is not None), None)
    found: dict[str, Values] = {}
    return found if _flattened(call, single_of(given), "", found) else None


def _flattened(call: Call, value: Value | None, under: str, found: dict[str, Values]) -> bool:
    entries = pairs(call.do, value)
    for key, held in entries or ():
        name = text_of(key.single)
        if name is None:
            return False
        only = held.single
        if isinstance(only, DictOf) and not _flattened(call, only, f"{under}{name}.", found):
            return False
        found[f"{under}{name}"] = held
    return entries is not None
