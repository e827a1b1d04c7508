"""What is installed here, copies of the checkout, and clean virtual environments to install them in."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "*_cache", "__pycache__", "*.egg-info", "*.pyc")


def require(*libraries: str) -> None:
    """Skip a test, or a file of them, where a library is not installed.

    Nothing is loaded: each worker of pytest would take as long for that, for tests that one of them runs.
    """
    for name in libraries:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed", allow_module_level=True)


def require_torch() -> None:
    """Skip a test, or a file of them, where torch is not installed: it is loaded by processes that train."""
    require("torch")


def copy_checkout(target: Path) -> Path:
    """The working tree without what git ignores, so that a test sees it as somebody who has just fetched it."""
    shutil.copytree(ROOT, target, ignore=_LEFT_OUT, symlinks=True)
    return target


def clean_venv(folder: Path, python: str = sys.executable) -> Path:
    """An empty virtual environment of this interpreter; its folder of programs."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=600)
    return folder / "bin"


def interpreter(version: str) -> str | None:
    """A Python of this version on this machine, such as 3.10; None where there is none."""
    # pyenv keeps what is not chosen out of the path; its shims there are no interpreters.
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin"))
    for folder in (*os.get_exec_path(), *map(str, kept)):
        found = shutil.which(f"python{version}", path=folder)
        if found and subprocess.run([found, "-c", ""], capture_output=True, check=False, timeout=600).returncode == 0:
            return found
    return None


def install(programs: Path, *what: str, by: str = sys.executable) -> None:
    """Install with the pip of an interpreter into the environment of these programs, dependencies included."""
    pip = [by, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet", *what]
    run = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=600, env=outside())
    assert run.returncode == 0, run.stderr


def outside(**more: str) -> dict[str, str]:
    """An environment in which nothing points into this checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    # Of what is installed here little is ever imported.
    return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_COMPILE": "1", **more}


def run_outside(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder that is no part of the checkout."""
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=600, env=outside(NO_COLOR="1")
    )
