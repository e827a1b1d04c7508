"""Lints a few files and says what it was told of them."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from gpudoctor import cli
from tests.support.told import Told


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """Lints files in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def tell_of(*arguments: str, **files: str) -> Told:
        for name, text in files.items():
            Path(f"{name}.py").write_text(dedent(text), encoding="utf-8")
        code = cli.main(["lint", "--output-format=json", "--no-cache", *(arguments or ["."])])
        return Told(code, *capsys.readouterr())

    return tell_of
