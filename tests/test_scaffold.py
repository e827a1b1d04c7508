"""The scaffold of a rule: it fits in at once, and its tests fail until somebody has written it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installs import copy_checkout


@pytest.fixture(scope="module")
def scaffolded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A copy of the checkout with one more rule, and the code that it got."""
    checkout = copy_checkout(tmp_path_factory.mktemp("scaffold") / "gpudoctor")
    run = _python(checkout, "tests/tools/new_rule.py", "data", "left-in-the-rain")
    assert run.returncode == 0, run.stderr
    return checkout, run.stdout.split()[0]


def test_its_tests_fail_until_it_is_written(scaffolded: tuple[Path, str]) -> None:
    checkout, code = scaffolded
    selected = ["-k", code, "-p", "no:cacheprovider", "-q"]
    run = _python(checkout, "-m", "pytest", *selected, "tests/test_rules.py", "tests/test_pages.py")
    assert run.returncode == 1, run.stdout + run.stderr
    failed = set(re.findall(r"^FAILED \S+::(\S+)", run.stdout, re.MULTILINE))
    programs = {"bad_page", "bad_two", "good_page", "good_two", "good_three"}
    assert failed >= {f"test_fixture[{code}/{name}]" for name in programs}
    assert f"test_it_has_its_parts[{code}-left-in-the-rain]" in failed


def test_it_is_listed_at_once(scaffolded: tuple[Path, str]) -> None:
    checkout, code = scaffolded
    run = _python(checkout, "-m", "gpudoctor", "rules")
    assert run.returncode == 0, run.stderr
    assert code in run.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["data", "Not A Name"], "no name"),
        (["data", "left-in-the-sun", "--code=GPU901"], "no code of the family"),
        (["data", "left-in-the-rain"], "exists"),
    ],
)
def test_it_refuses_what_would_not_fit(scaffolded: tuple[Path, str], arguments: list[str], complaint: str) -> None:
    run = _python(scaffolded[0], "tests/tools/new_rule.py", *arguments)
    assert run.returncode == 2
    assert complaint in run.stderr


def test_the_log_of_a_program_is_shown(repository: Path) -> None:
    run = _python(repository, "tests/tools/show_log.py", "fixtures/programs/broken_ddp/train.py")
    assert run.returncode == 0, run.stderr
    assert "train.py in the world torchrun: whole" in run.stdout
    assert re.search(r"utils\.py:22  Collective\(.*all_reduce.*\) on rank 0 only$", run.stdout, re.MULTILINE)


def _python(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in a copy of the checkout, which hides the installed one."""
    path = os.pathsep.join((str(checkout), str(checkout / "rules")))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )
