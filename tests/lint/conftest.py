"""Programs executed on paper, for the tests of the engine."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.lint.interface.library_call import MODELS
from gpudoctor.lint.interp import expressions
from tests.support import paper as on_paper

Execute = Callable[..., on_paper.Paper]


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Execute:
    """Execute a program on paper: `paper(source)`, or `paper(source, launch="auto")`."""
    monkeypatch.setattr(expressions, "BUILTINS", expressions.BUILTINS | {"reveal"})
    monkeypatch.setitem(MODELS.callables, "builtins.reveal", on_paper.reveal)
    monkeypatch.chdir(tmp_path)
    return lambda source, launch="torchrun": on_paper.execute(tmp_path, source, launch)
