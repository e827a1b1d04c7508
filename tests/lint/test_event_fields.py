"""What the fields of events hold: what their annotations say, for which rules ask no more."""

from __future__ import annotations

import importlib
import pkgutil
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

import pytest

import gpudoctor.lint.domain
import gpudoctor.lint.events
from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.interp.execution_state import ExecutionState
from tests.support.linting import lint
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import Event

FAMILIES = sorted({path.parent.parent for path in (ROOT / "fixtures" / "rules").glob("*/*/*.py")})
MAX_PROGRAMS = 25
"""The first bad programs of a family, one a rule."""


def _names() -> dict[str, Any]:
    """What the annotations of events may name, of which much is imported for type checkers alone."""
    found: dict[str, Any] = {"Location": Location}
    for package in (gpudoctor.lint.domain, gpudoctor.lint.events):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            found |= vars(importlib.import_module(module.name))
    return found


def _kinds(hint: object) -> tuple[type, ...]:
    """The classes that an annotation allows; none where it names no kind of value."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    kinds = [each for each in parts if isinstance(each, type)]
    narrow = any(each.__module__.startswith("gpudoctor.lint.domain") and each is not Value for each in kinds)
    return tuple(kinds) if narrow else ()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda path: path.name)
@pytest.mark.slow
def test_events_hold_what_their_fields_say(family: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    names, wrong, asked = _names(), set[str](), set[str]()
    allowed: dict[type, dict[str, tuple[type, ...]]] = {}
    emit = ExecutionState.emit

    def checked(state: ExecutionState, kind: type[Event], /, *, at: Location | None = None, **fields: object) -> None:
        if kind not in allowed:
            hints = get_type_hints(kind, localns=names)
            allowed[kind] = {name: kinds for name, hint in hints.items() if (kinds := _kinds(hint))}
        for name, kinds in allowed[kind].items():
            held = fields.get(name)
            asked.add(f"{kind.__name__}.{name}")
            if name in fields and not isinstance(held, kinds):
                wrong.add(f"{kind.__name__}.{name}: {type(held).__name__}")
        emit(state, kind, at=at, **fields)

    monkeypatch.setattr(ExecutionState, "emit", checked)
    programs = [next(iter(sorted(rule.glob("bad_*.py"))), None) for rule in sorted(family.iterdir()) if rule.is_dir()]
    for program in [each for each in programs if each is not None][:MAX_PROGRAMS]:
        lint(program, folder=program.parent)
    assert asked
    assert wrong == set()
