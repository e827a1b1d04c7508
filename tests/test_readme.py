"""The README holds what it promises: its commands run as they stand, its table and its example are what comes out."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.installs import copy_checkout, outside

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("tool", ["make_docs.py", "make_picture.py"])
def test_generated_parts_are_up_to_date(repository: Path, tool: str) -> None:
    command = [sys.executable, f"tests/tools/{tool}", "--check"]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 0, run.stderr


def test_line_for_users_runs_as_it_stands(readme: str, tmp_path: Path) -> None:
    line = next(line for line in _commands(readme) if "gpudoctor lint" in line and "pip install" in line)
    checkout = copy_checkout(tmp_path / "gpudoctor")
    run = subprocess.run(
        ["bash", "-c", line], cwd=checkout, capture_output=True, text=True, check=False, timeout=600, env=outside()
    )
    assert run.returncode == 1, run.stdout + run.stderr
    numbers = re.findall(r"\d+", run.stderr.rpartition("Found ")[2].partition(" in ")[0])
    assert "It names four mistakes" in readme
    assert sum(map(int, numbers)) == 4, run.stdout + run.stderr


def test_line_for_contributors_is_what_ci_runs(readme: str, repository: Path) -> None:
    line = next(line for line in _commands(readme) if "pytest" in line)
    assert (repository / ".ci" / "run").read_text(encoding="utf-8").rstrip().splitlines()[-1] == line


def test_links_lead_somewhere(readme: str, repository: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", readme)
    assert not [target for target in targets if not (repository / target).exists()]


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_named_files_exist(repository: Path, document: str) -> None:
    text = (repository / document).read_text(encoding="utf-8")
    named = re.findall(r"\b(?:fixtures|tests|rules|gpudoctor/lint)/[\w./-]*\w", text)
    assert named
    assert not [name for name in named if not (repository / name).exists()]


def _commands(text: str) -> list[str]:
    """The lines of the blocks that are meant for a shell."""
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
