"""What a start loads: a lint of one script takes less time than torch, or rich, takes to be imported."""

import subprocess
import sys

import pytest

from tests.support.sources import ROOT


@pytest.mark.parametrize("module", ["gpudoctor.cli", "gpudoctor.lint.pipeline"])
def test_start_up_leaves_out_what_is_slow(module: str) -> None:
    loaded = _loaded_by(f"import {module}")
    slow = ("torch", "libcst", "pathspec", "rich", "numpy", "tree_sitter", "yaml")
    assert not loaded & {*slow, "importlib.metadata", "multiprocessing", "concurrent.futures"}


def test_lint_loads_nothing_that_only_runs_and_pages_need() -> None:
    """Rules are judged by what a run has shown, too, and have a page: their files must not bring that along."""
    script = "fixtures/programs/one_script/train.py"
    # The index of the rules is there: whoever comes first after a change of one reads them all to write it.
    subprocess.run([sys.executable, "-m", "gpudoctor", "rules"], cwd=ROOT, capture_output=True, check=True, timeout=600)
    code = f"import gpudoctor.cli as c; c.main(['lint', '-q', '--no-cache', {script!r}])"
    loaded = _loaded_by(code)
    assert "gpudoctor.lint.interp.interpreter" in loaded
    assert not {name for name in loaded if name.startswith(("gpudoctor.run", "gpudoctor.probe"))} | loaded & {
        "statistics",
        "gpudoctor.page_examples",
        "gpudoctor.plain",
        "tree_sitter",
        "tree_sitter_bash",
        "yaml",
    }
    assert not {name for name in loaded if name.startswith("gpudoctor.lint.launch")}


def test_start_up_does_not_load_the_rules() -> None:
    assert not [name for name in _loaded_by("import gpudoctor.cli") if name.startswith("gpudoctor_rules.")]


def _loaded_by(code: str) -> set[str]:
    """The modules that are there once this has been executed."""
    whole = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    run = subprocess.run(whole, cwd=ROOT, capture_output=True, text=True, check=True, timeout=600)
    return set(run.stdout.split())
