"""The action of this repository and its own workflow: valid for GitHub, and what they run does what is said of it.

What needs the service or the network (other actions, `pip install`) is not run.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest
import yaml

from tests.support.sarif_schema import LOG
from tests.test_ci_snippets import WRONG

ROOT = Path(__file__).resolve().parent.parent
ACTION = ROOT / "action.yml"
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"


@pytest.mark.parametrize(("schema", "file"), [("vendor.github-actions", ACTION), ("vendor.github-workflows", WORKFLOW)])
def test_github_reads_it(schema: str, file: Path) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("file", [ACTION, WORKFLOW])
def test_other_actions_are_pinned(file: Path) -> None:
    used = re.findall(r"uses: (.*)", file.read_text(encoding="utf-8"))
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in used)


def test_inputs_are_no_part_of_a_script() -> None:
    steps = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]
    scripts = [step["run"] for step in steps if "run" in step]
    assert len(scripts) == 2
    assert not any("${{" in script for script in scripts)


def test_the_workflow_runs_what_ci_runs() -> None:
    (job,) = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert job["strategy"]["matrix"]["python-version"] == [named[0], named[-1]]


class Ended(NamedTuple):
    """What the step printed, and what it left in the files of the runner."""

    code: int
    out: str
    summary: str
    sarif: dict[str, Any] | None


@pytest.mark.slow
class TestLintStep:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """What a runner has checked out."""
        checkout = tmp_path / "checkout"
        (checkout / "src").mkdir(parents=True)
        (checkout / "src" / "train.py").write_text(WRONG, encoding="utf-8")
        (checkout / "clean.py").write_text("import torch\n", encoding="utf-8")
        return checkout

    def step(self, checkout: Path, **inputs: str) -> Ended:
        """Run the script as the action does, with the inputs that are not given at their defaults."""
        action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
        (step,) = [each for each in action["runs"]["steps"] if each.get("id") == "lint"]
        given = {name: each["default"] for name, each in action["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        variables = {
            name: given[match[1]]
            for name, value in step["env"].items()
            if (match := re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value))
        }
        home = checkout.parent / "runner"
        program = home / "gpudoctor" / "bin" / "gpudoctor"
        program.parent.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join([str(ROOT), str(ROOT / "rules")])
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -m gpudoctor "$@"\n', "utf-8")
        program.chmod(0o755)
        for name in ("summary.md", "output"):
            (home / name).write_text("", encoding="utf-8")
        runner = {
            "RUNNER_TEMP": str(home),
            "GITHUB_WORKSPACE": str(checkout),
            "GITHUB_STEP_SUMMARY": str(home / "summary.md"),
            "GITHUB_OUTPUT": str(home / "output"),
            "ACTION": str(ROOT),
        }
        run = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=checkout,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            env={**os.environ, **runner, **variables},
        )
        told = re.findall(r"^sarif-file=(.*)$", (home / "output").read_text(encoding="utf-8"), re.MULTILINE)
        sarif = json.loads(Path(told[0]).read_text(encoding="utf-8")) if told else None
        return Ended(run.returncode, run.stdout, (home / "summary.md").read_text(encoding="utf-8"), sarif)

    def test_a_wrong_program(self, folder: Path) -> None:
        ended = self.step(folder)
        assert ended.code == 1
        assert [line for line in ended.out.splitlines() if line.startswith("::error file=src/train.py,line=5,")]
        assert "src/train.py:5:1: error: GPU103" in ended.out
        assert ended.summary.startswith("## gpudoctor\n\n``````````text\nsrc/train.py:5:1: error: GPU103")
        assert "Found 1 error in 1 file." in ended.summary
        assert ended.summary.endswith("``````````\n")
        jsonschema.Draft7Validator(LOG).validate(ended.sarif)
        assert [each["ruleId"] for each in ended.sarif["runs"][0]["results"]] == ["GPU103"]

    def test_a_clean_program(self, folder: Path) -> None:
        ended = self.step(folder, paths="clean.py")
        assert ended.code == 0
        assert "::" not in ended.out
        assert "No mistake found in 1 file." in ended.summary

    def test_what_is_shown_can_be_chosen(self, folder: Path) -> None:
        ended = self.step(folder, annotations="false", summary="false", fail_on="never", paths="src\nclean.py\n")
        assert (ended.code, ended.summary) == (0, "")
        assert "::error" not in ended.out
        assert "GPU103" in ended.out

    def test_more_options(self, folder: Path) -> None:
        assert self.step(folder, args="--select GPU3\n--no-cache").code == 0

    def test_inputs_are_not_obeyed(self, folder: Path) -> None:
        assert self.step(folder, paths="$(touch pwned) `touch pwned`; touch pwned").code == 2
        assert not (folder / "pwned").exists()

    def test_wrong_use_fails_and_says_so(self, folder: Path) -> None:
        ended = self.step(folder, args="--slect GPU3")
        assert (ended.code, ended.sarif) == (2, None)
        assert "unknown option `--slect`" in ended.summary
