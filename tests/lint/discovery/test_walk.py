"""Which files a command takes up."""

import os
from pathlib import Path

import pytest

from gpudoctor.lint.discovery.content_signs import concerns_training
from gpudoctor.lint.discovery.walk import collect


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lay(*files: str) -> None:
    for name in files:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()


def taken(*paths: str, exclude: tuple[str, ...] = ()) -> list[str]:
    found, problems = collect(list(paths), exclude)
    assert not problems
    return [os.path.normpath(path) for path in found.values()]


def test_folders_are_searched_in_order() -> None:
    lay("b.py", "a.py", "notes.txt", "stub.pyi", "z/c.py", "z/a/d.py", "m/e.py", "B.PY")
    assert taken(".") == ["a.py", "b.py", "m/e.py", "z/c.py", "z/a/d.py"]
    assert taken("z", "m") == ["z/c.py", "z/a/d.py", "m/e.py"]


def test_templates_are_no_programs() -> None:
    lay("train.py", "{{cookiecutter.name}}/model.py", "templates/run_{{name}}.py", "templates/data.py")
    assert taken(".") == ["train.py", "templates/data.py"]
    assert taken("templates/run_{{name}}.py") == ["templates/run_{{name}}.py"]


def test_named_files_are_taken_whatever_they_are() -> None:
    lay("train", ".hidden.py", "venv/a.py", "pipe.py")
    os.mkfifo("fifo")
    assert taken("train", ".hidden.py", "venv/a.py", "fifo") == ["train", ".hidden.py", "venv/a.py", "fifo"]
    assert taken("venv/a.py", exclude=("venv",)) == ["venv/a.py"]


def test_each_file_once() -> None:
    lay("a/b.py")
    Path("link.py").symlink_to("a/b.py")
    assert taken("a/b.py", "a", ".", "./a/../a/b.py") == ["a/b.py"]


def test_what_is_never_searched() -> None:
    for folder in (
        ".git",
        ".venv",
        "venv",
        "node_modules",
        "__pycache__",
        "build",
        "dist",
        ".tox",
        "lib/site-packages",
    ):
        lay(f"{folder}/x.py")
    lay("myenv/pyvenv.cfg", "myenv/x.py", "real/dist/__init__.py", "real/dist/x.py", "builder/x.py")
    assert taken(".") == ["builder/x.py", "real/dist/__init__.py", "real/dist/x.py"]
    assert taken("build", ".venv") == ["build/x.py", ".venv/x.py"], "unless it is named"


def test_links_and_pipes() -> None:
    lay("project/pyproject.toml", "project/a/b.py", "project/c.py", "out/d.py")
    os.chdir("project")
    Path("a/up").symlink_to("..")
    Path("a/self").symlink_to(".")
    Path("a/c.py").symlink_to("../c.py")
    Path("a/d.py").symlink_to("../../out/d.py")
    Path("a/e.py").symlink_to("e.py")
    Path("a/dangling.py").symlink_to("nowhere.py")
    Path("a/folder.py").mkdir()
    os.mkfifo("a/fifo.py")
    assert taken("a") == ["a/b.py", "a/c.py"]


@pytest.mark.parametrize(
    ("glob", "left"),
    [
        ("tests", ["a.py", "pkg/a.py", "pkg/test_a.py"]),
        ("test_*.py", ["a.py", "pkg/a.py", "pkg/tests/b.py", "tests/c.py"]),
        ("pkg/tests", ["a.py", "pkg/a.py", "pkg/test_a.py", "tests/c.py"]),
        ("./pkg/tests/", ["a.py", "pkg/a.py", "pkg/test_a.py", "tests/c.py"]),
        ("pkg/*.py", ["a.py", "tests/c.py"]),
        ("pkg", ["a.py", "tests/c.py"]),
        ("*", []),
    ],
)
def test_exclude(glob: str, left: list[str]) -> None:
    lay("a.py", "pkg/a.py", "pkg/test_a.py", "pkg/tests/b.py", "tests/c.py")
    assert taken(".", exclude=("nothing", glob)) == left


def test_exclude_counts_from_the_working_directory(tmp_path: Path) -> None:
    lay("a/b.py", "a/c.py")
    assert [Path(path).name for path in taken(str(tmp_path / "a"), exclude=("a/b.py",))] == ["c.py"]


def test_paths_that_lead_nowhere() -> None:
    lay("a.py")
    found, problems = collect(["a.py", "gone/b.py"])
    assert [*found.values()] == ["a.py"]
    assert [problem.path for problem in problems] == ["gone/b.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="everything is readable to root")
def test_folder_without_permission() -> None:
    lay("a/b.py", "c/d.py")
    Path("a").chmod(0)
    try:
        found, problems = collect(["."])
    finally:
        Path("a").chmod(0o755)
    assert [*found.values()] == ["./c/d.py"]
    assert "cannot be read" in problems[0].message


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("import torch", True),
        ("from torchvision import models", True),
        ("from pytorch_lightning import Trainer", True),
        ("from accelerate import Accelerator", True),
        ("import horovod.keras as hvd", True),
        ("import ray", True),
        ("from ray.train import ScalingConfig", True),
        ("from detectron2.engine import launch", True),
        ("import numpy as np\nx = np.array([1])\ndisplay.array", False),
        ("import jax", False),
        ("import tensorflow as tf", False),
        ("", False),
    ],
)
def test_concerns_training(text: str, answer: bool) -> None:
    assert concerns_training(text.encode()) is answer


def test_json_of_a_folder_of_data() -> None:
    lay("train.py", "settings/base.json", *(f"data/{number}.json" for number in range(20)), "data/ds_config.json")
    assert taken(".") == ["train.py", "data/ds_config.json", "settings/base.json"]
