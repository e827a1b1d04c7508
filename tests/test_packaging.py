"""The package as a stranger gets it: the wheel that the sdist makes, and an editable install, each in a clean
environment."""

import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.installs import clean_venv, copy_checkout, install, interpreter, outside, run_outside
from tests.support.sources import PACKAGES, ROOT


class Built(NamedTuple):
    """What a release consists of, and the tree that it was made from."""

    checkout: Path
    wheel: Path
    sdist: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """An sdist, and the wheel that is made from it."""
    checkout = copy_checkout(tmp_path_factory.mktemp("checkout") / "gpudoctor")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(checkout)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=outside())
    assert run.returncode == 0, run.stdout + run.stderr
    return Built(checkout, next(out.glob("*.whl")), next(out.glob("*.tar.gz")))


@pytest.fixture(scope="session")
def of_the_wheel(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a clean environment in which the wheel was installed."""
    return _installed(tmp_path_factory.mktemp("venv_wheel"), built.wheel)


@pytest.fixture(scope="session", params=["wheel", "editable"])
def programs(
    request: pytest.FixtureRequest, built: Built, of_the_wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The programs of a clean environment that has gpudoctor, installed in one of both ways. That what is needed to
    build it is declared, the editable one shows; that the sdist holds it, the wheel."""
    if request.param == "wheel":
        return of_the_wheel
    return _installed(tmp_path_factory.mktemp("venv_editable"), "--editable", built.checkout)


def _installed(folder: Path, *what: str | Path, python: str = sys.executable) -> Path:
    programs = clean_venv(folder, python)
    # The pip of an older Python may not run in a newer one.
    install(programs, *map(str, what), by=python)
    return programs


@pytest.mark.parametrize("start", [["gpudoctor"], ["python", "-m", "gpudoctor"]], ids=["script", "module"])
def test_rules_are_found(programs: Path, start: list[str], built: Built, tmp_path: Path) -> None:
    run = run_outside([str(programs / start[0]), *start[1:], "rules"], tmp_path)
    assert run.returncode == 0, run.stderr
    declared = {
        match[1]
        for path in (built.checkout / "rules" / "gpudoctor_rules").glob("*/[!_]*.py")
        if (match := re.search(r'^    code = "(GPU\d{3})"', path.read_text(encoding="utf-8"), re.MULTILINE))
    }
    assert set(re.findall(r"GPU\d{3}", run.stdout)) == declared


def test_a_page_has_its_example_there(programs: Path, tmp_path: Path) -> None:
    here = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "explain", "GPU302"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    there = run_outside([str(programs / "gpudoctor"), "explain", "GPU302"], tmp_path)
    assert "    +     sampler.set_epoch(epoch)\n" in there.stdout
    assert there.stdout == here.stdout


def test_lint_works_there(programs: Path, built: Built, tmp_path: Path) -> None:
    broken = built.checkout / "fixtures" / "programs" / "broken_ddp" / "train.py"
    run = run_outside([str(programs / "gpudoctor"), "lint", "--output-format=concise", str(broken)], tmp_path)
    assert run.returncode == 1, run.stderr
    assert "GPU" in run.stdout


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_each_python_says_the_same(version: str, built: Built, of_the_wheel: Path, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    ours = version == f"{sys.version_info.major}.{sys.version_info.minor}"
    programs = of_the_wheel if ours else _installed(tmp_path / "venv", built.wheel, python=python)
    project = built.checkout / "fixtures" / "programs" / "broken_ddp"
    run = run_outside([str(programs / "gpudoctor"), "lint", "--output-format=concise", "train.py"], project)
    found = [
        f"{path}:{line} {code}" for path, line, code in re.findall(r"^(\S+):(\d+):\d+: \w+: (GPU\d+)", run.stdout, re.M)
    ]
    # A report begins with what does most harm.
    assert sorted(found) == (project / "expected.txt").read_text(encoding="utf-8").splitlines()


def test_core_has_no_torch(programs: Path, tmp_path: Path) -> None:
    run = run_outside([str(programs / "python"), "-c", "import torch"], tmp_path)
    assert "ModuleNotFoundError" in run.stderr


def test_wheel_holds_the_two_packages_alone(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        names = wheel.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    # Who cannot write there would import all rules at each start.
    assert "gpudoctor_rules/examples.json" in names
    assert {"gpudoctor_rules/cards.index", "gpudoctor/manifest/compiled.table"} <= set(names)
    assert "gpudoctor/probe/page/templates/probe.html.j2" in names
    assert {f"gpudoctor/schemas/{name}.json" for name in ("lint", "probe", "run", "settings")} <= set(names)
    assert {"gpudoctor/html/templates/frame.html.j2", "gpudoctor/html/templates/style.css"} <= set(names)


def test_sdist_can_run_the_tests(built: Built) -> None:
    with tarfile.open(built.sdist) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"LICENSE", "README.md", "CHANGELOG.md", "tests/test_packaging.py", ".pre-commit-hooks.yaml"} <= names
    assert any(name.startswith("fixtures/rules/") for name in names)


def test_an_index_takes_both_and_shows_the_readme(built: Built) -> None:
    command = [sys.executable, "-m", "twine", "check", "--strict", str(built.wheel), str(built.sdist)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=outside())
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("PASSED") == 2


def test_all_that_an_index_shows_comes_from_one_address(built: Built, tmp_path: Path) -> None:
    checkout = copy_checkout(tmp_path / "gpudoctor")
    project = checkout / "pyproject.toml"
    text = project.read_text(encoding="utf-8")
    project.write_text(text.replace('repository = ""', 'repository = "https://example.org/g/"'), encoding="utf-8")
    command = [sys.executable, "-m", "hatchling", "metadata"]
    run = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=True, timeout=600, env=outside())
    shown = json.loads(run.stdout)
    assert {"Homepage", "Documentation", "Source", "Changelog", "Issues"} == set(shown["urls"])
    readme = shown["readme"]["text"]
    targets = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert [each for each in targets if each.startswith("https://example.org/g/blob/main/docs/")]
    assert [each for each in targets if each.startswith("https://example.org/g/raw/main/.github/")]
    assert all(re.match(r"https?://|#", each) for each in targets)
    there = [each.split("/main/")[1].partition("#")[0] for each in targets if "/main/" in each]
    assert not [each for each in there if not (checkout / each).exists()]


def test_links_into_a_repository_that_nobody_can_see_are_left_out(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        file = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        fields, _, text = wheel.read(file).decode().partition("\n\n")
    if "Project-URL: Source" in fields:
        pytest.skip("the repository has an address: the test above says where links lead")
    assert not re.findall(r"\]\((?!https?://|#)", text)
    assert "[CONTRIBUTING.md]" not in text
    assert "CONTRIBUTING.md says how" in text


def test_metadata_is_whole(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as wheel:
        file = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        fields, _, text = wheel.read(file).decode().partition("\n\n")
    assert "License-Expression: Apache-2.0" in fields
    assert "Requires-Python: >=3.10" in fields
    assert text.startswith("# gpudoctor")
    core = [line for line in fields.splitlines() if line.startswith("Requires-Dist") and "extra ==" not in line]
    assert sorted(re.findall(r"^Requires-Dist: ([\w-]+)", "\n".join(core), re.MULTILINE)) == [
        "libcst",
        "pathspec",
        "pyyaml",
        "rich",
        "tomli",
        "tree-sitter",
        "tree-sitter-bash",
    ]
