"""A release is one command: what it writes, tags and refuses, in a copy of this checkout."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installs import copy_checkout, outside

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of this working tree, with one commit."""
    folder = copy_checkout(tmp_path_factory.mktemp("release") / "gpudoctor")
    changes = folder / "CHANGELOG.md"
    changes.write_text(re.sub(r"^## \S+ \(.*\)", "## 9.8.7 (not released)", changes.read_text("utf-8"), flags=re.M))
    _git(folder, "init", "--quiet")
    _git(folder, "config", "user.name", "a")
    _git(folder, "config", "user.email", "a@example.org")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", "All")
    return folder


def test_a_release(checkout: Path, tmp_path: Path) -> None:
    refused = _release(checkout, "1.2.3", tmp_path)
    assert (refused.returncode, refused.stderr) == (1, "CHANGELOG.md has no `## 1.2.3 (not released)`\n")

    made = _release(checkout, "9.8.7", tmp_path)
    assert made.returncode == 0, made.stderr
    assert {each.name for each in tmp_path.iterdir()} == {"gpudoctor-9.8.7-py3-none-any.whl", "gpudoctor-9.8.7.tar.gz"}
    assert "git push origin HEAD v9.8.7\n  twine upload " in made.stdout
    assert _git(checkout, "show", "--no-patch", "--format=%s", "v9.8.7^{commit}") == "Release 9.8.7"
    assert '__version__ = "9.8.7"' in (checkout / "gpudoctor" / "__init__.py").read_text("utf-8")
    assert re.search(r"^## 9\.8\.7 \(\d{4}-\d\d-\d\d\)$", (checkout / "CHANGELOG.md").read_text("utf-8"), re.M)

    again = _release(checkout, "9.8.7", tmp_path)
    assert (again.returncode, again.stderr) == (1, "there is a tag v9.8.7 already\n")


def _release(checkout: Path, version: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "tests/tools/make_release.py", version, str(folder)]
    return subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, check=False, timeout=300, env=outside()
    )


def _git(folder: Path, *words: str) -> str:
    run = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True, timeout=600)
    return run.stdout.strip()
