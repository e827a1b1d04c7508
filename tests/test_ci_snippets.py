"""The CI files of the documentation: valid for the service that reads them, and their commands do what is said of them.

What needs the service or the network (actions, images, `pip install` from an address) is not run.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.support.installs import require_torch
from tests.support.sarif_schema import LOG

WRONG = """\
import torch
from torch import nn

model = nn.Linear(8, 1).cuda()
nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(100):
    optimizer.zero_grad()
    model(torch.randn(32, 8).cuda()).square().mean().backward()
    optimizer.step()
"""


@pytest.fixture
def snippets(repository: Path) -> dict[str, list[str]]:
    """The YAML of each section of the page about CI, as it stands there."""
    page = (repository / "docs" / "ci.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^### (.+)\n", page, flags=re.MULTILINE)
    return {
        title: re.findall(r"```yaml\n(.*?)```", re.split(r"^## ", text, flags=re.MULTILINE)[0], re.DOTALL)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a service has checked out: a repository with a wrong program in a folder."""
    folder = tmp_path / "checkout" / "src"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(WRONG, encoding="utf-8")
    return folder.parent


def valid_for(schema: str, text: str, tmp_path: Path) -> None:
    """The text passes the schema of a service that check-jsonschema brings along."""
    (tmp_path / "ci.yml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(tmp_path / "ci.yml")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr


def run_line(line: str, checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a line as the service would, with the gpudoctor of this checkout on the path."""
    programs = checkout.parent / "bin"
    programs.mkdir(exist_ok=True)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join([root, os.path.join(root, "rules")])
    program = programs / "gpudoctor"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -m gpudoctor "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    return subprocess.run(
        ["bash", "-e", "-c", line],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, **environment, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},
    )


def lint_lines(lines: list[str]) -> list[str]:
    """The lines that lint; the others install."""
    installing = [line for line in lines if line.startswith('pip install "gpudoctor @ git+https://')]
    assert len(installing) + sum(line.startswith("gpudoctor lint ") for line in lines) == len(lines)
    return [line for line in lines if line not in installing]


def run_steps(steps: list[dict[str, Any]]) -> list[str]:
    return [step["run"] for step in steps if "run" in step]


def test_github_actions(snippets: dict[str, list[str]], checkout: Path, tmp_path: Path) -> None:
    workflow, _ = snippets["GitHub Actions"]
    valid_for("vendor.github-workflows", workflow, tmp_path)
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    (line,) = lint_lines(run_steps(job["steps"]))
    run = run_line(line, checkout, GITHUB_WORKSPACE=str(checkout))
    assert run.returncode == 1, run.stderr
    assert run.stdout.startswith("::error file=src/train.py,line=5,")
    assert all(command.startswith("::") for command in run.stdout.splitlines())


def test_code_scanning(snippets: dict[str, list[str]], checkout: Path, tmp_path: Path) -> None:
    workflow, instead = snippets["GitHub Actions"]
    whole = yaml.safe_load(workflow)
    (job,) = whole["jobs"].values()
    steps = yaml.safe_load(instead)
    job["steps"][-1:] = steps
    # YAML reads `on` as a yes.
    whole["on"] = whole.pop(True)
    valid_for("vendor.github-workflows", yaml.safe_dump(whole), tmp_path)
    assert whole["permissions"]["security-events"] == "write"
    (line,) = lint_lines(run_steps(steps))
    run = run_line(line, checkout, GITHUB_WORKSPACE=str(checkout))
    assert (run.returncode, run.stdout) == (0, "")
    document = json.loads((checkout / steps[1]["with"]["sarif_file"]).read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(LOG).validate(document)
    assert [result["ruleId"] for result in document["runs"][0]["results"]] == ["GPU103"]


def test_gitlab_ci(snippets: dict[str, list[str]], checkout: Path, tmp_path: Path) -> None:
    (text,) = snippets["GitLab CI"]
    valid_for("vendor.gitlab-ci", text, tmp_path)
    job = yaml.safe_load(text)["gpudoctor"]
    (line,) = lint_lines(job["script"])
    run = run_line(line, checkout, CI_PROJECT_DIR=str(checkout))
    assert (run.returncode, run.stdout) == (1, "")
    (issue,) = json.loads((checkout / job["artifacts"]["reports"]["codequality"]).read_text(encoding="utf-8"))
    assert issue["location"] == {"path": "src/train.py", "lines": {"begin": 5, "end": 5}}
    # A job that fails keeps its report only when it is told to.
    assert job["artifacts"]["when"] == "always"


TRAINS = """\
import argparse
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, required=True)
parser.parse_args()
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[gpu])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    optimizer.zero_grad()
    (model(torch.randn(32, 8).cuda()) - torch.randn(32, 1).cuda()).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def test_a_training_is_tried(repository: Path, checkout: Path, tmp_path: Path) -> None:
    require_torch()
    page = (repository / "docs" / "ci.md").read_text(encoding="utf-8").partition("\n## Try the training itself\n")[2]
    github, gitlab = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    workflow = {"on": ["push"], "jobs": {"try": {"runs-on": "ubuntu-latest", "steps": yaml.safe_load(github)}}}
    valid_for("vendor.github-workflows", yaml.safe_dump(workflow), tmp_path)
    valid_for("vendor.gitlab-ci", gitlab, tmp_path)
    (job,) = yaml.safe_load(gitlab).values()
    assert run_steps(yaml.safe_load(github)) == job["script"]
    *installing, line = job["script"]
    assert all(each.startswith("pip install ") for each in installing)
    for text, status in ((TRAINS, 0), (TRAINS.replace("torch.randn(32, 1).cuda()", "torch.randn(32, 1)"), 1)):
        (checkout / "train.py").write_text(text, encoding="utf-8")
        run = run_line(line, checkout)
        assert run.returncode == status, run.stderr
        assert (len(run.stderr.splitlines()) == 1) == (status == 0), run.stderr
