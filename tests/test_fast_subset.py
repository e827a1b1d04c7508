"""`pytest -m fast`: a verdict while one waits, of tests that start nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import fast
from tests.support.fast import starting_nothing, starts
from tests.support.watching import watch

PROOFS = "tests/proofs/test_proofs.py"


@pytest.fixture(scope="module")
def subset(request: pytest.FixtureRequest, repository: Path) -> list[str]:
    """The tests in it, by their ids."""
    here = request.session.items
    # Collecting all of them once more takes as long as many a file of tests.
    if PROOFS in {item.nodeid.partition("::")[0] for item in here}:
        return [item.nodeid for item in here if item.get_closest_marker("fast")]
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "fast", "-p", "no:cacheprovider"]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True, timeout=300)
    return [line for line in run.stdout.splitlines() if "::" in line]


def test_most_tests_are_in_it(subset: list[str]) -> None:
    files = {test.partition("::")[0] for test in subset}
    assert len(subset) > 6000
    assert {"tests/test_rules.py", "tests/test_pages.py", "tests/lint/interp/test_branches.py"} <= files


def test_no_test_of_ranks_is_in_it(subset: list[str]) -> None:
    # What each of these files asks takes ranks.
    files = ("tests/run/test_hangs.py", "tests/run/test_report_of_run.py", "tests/probe/test_fake_gpus.py")
    proofs = f"{PROOFS}::test_claim["
    assert not [test for test in subset if test.startswith((*files, proofs)) and "does_not_expect" not in test]


def test_no_file_loads_torch_where_it_is_collected() -> None:
    """It takes a second in each worker of pytest: `require_torch()` loads nothing, and tests import it themselves."""
    assert not fast.loaded_while_collecting


def _through_a_helper(folder: Path) -> None:
    watch(folder, "train.py")


def _by_itself() -> None:
    subprocess.run(["true"], check=True)


def _in_a_function_inside() -> None:
    def inside() -> None:
        _by_itself()

    inside()


def _starts_nothing() -> None:
    assert sys.version_info > (3, 9)


@pytest.mark.parametrize("test", [_through_a_helper, _by_itself, _in_a_function_inside])
def test_what_starts_something_is_seen(test: object) -> None:
    assert starts(test)


def test_what_starts_nothing_is_not() -> None:
    assert not starts(_starts_nothing)


def test_what_was_overlooked_cannot_start_anything_either() -> None:
    with starting_nothing(), pytest.raises(AssertionError, match="counts as fast starts a process"):
        _by_itself()
    with starting_nothing(), pytest.raises(AssertionError, match="counts as fast loads torch"):
        sys.audit("import", "torch", None, None, None, None)
    _by_itself()


def test_of_several_workers_none_is_left_with_something_slow(repository: Path, tmp_path: Path) -> None:
    for name, tests, mark in (("few_slow", 2, "slow"), ("many_fast", 9, "fast"), ("few_fast", 2, "fast")):
        body = f"import pytest\n\n@pytest.mark.parametrize('n', range({tests}))\ndef test_it(n): pass\n"
        (tmp_path / f"test_{name}.py").write_text(body.replace("def", f"@pytest.mark.{mark}\ndef"))
    (tmp_path / "conftest.py").write_text((repository / "tests" / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    fast\n    slow\n")
    command = [sys.executable, "-m", "pytest", "-v", "-n", "1", "--dist", "loadfile", "-p", "no:cacheprovider", "."]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (repository, repository / "rules")))}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    ran = [line.partition("PASSED ")[2].partition("::")[0] for line in run.stdout.splitlines() if "PASSED" in line]
    assert list(dict.fromkeys(ran)) == ["test_few_slow.py", "test_many_fast.py", "test_few_fast.py"], run.stdout
