"""What a model logs is what the fields of its event say; `test_rules.py` holds all fixtures to that."""

import pytest

from gpudoctor.lint.domain.value import NONE, Unknown, Value
from gpudoctor.lint.events.reporting import UseLogger
from gpudoctor.lint.interp.execution_state import ExecutionState
from tests.support.event_fields import events_hold_what_their_fields_say


def logged(logger: Value) -> None:
    with events_hold_what_their_fields_say():
        ExecutionState.emit(object(), UseLogger, logger=logger)  # type: ignore[arg-type]


def test_another_kind_of_value_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ExecutionState, "emit", lambda *_, **fields: None)
    logged(Unknown(NONE))  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=r"UseLogger.logger: Const"):
        logged(NONE)
