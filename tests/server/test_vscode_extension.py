"""The extension for VS Code, built as it is packaged, with its real client and a stand-in for the editor around it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.test_while_typing import BAD
from tests.support.editor import ROOT

pytestmark = pytest.mark.slow

EXTENSION = ROOT / "editors" / "vscode"
NODE, NPM = shutil.which("node"), shutil.which("npm")


@pytest.mark.skipif(not (NODE and NPM), reason="node or npm is not installed")
@pytest.mark.skipif(not (EXTENSION / "node_modules").exists(), reason="run `npm ci` in editors/vscode first")
def test_the_extension_shows_what_the_server_finds(tmp_path: Path) -> None:
    subprocess.run([str(NPM), "run", "build"], cwd=EXTENSION, check=True, capture_output=True, timeout=600)
    program, command = tmp_path / "train.py", tmp_path / "gpudoctor"
    program.write_text(BAD)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpudoctor "$@"\n')
    command.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "rules")])}
    drive = [str(NODE), str(EXTENSION / "test" / "drive.js"), str(command), str(program)]
    run = subprocess.run(drive, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert seen["diagnostics"] == [["train.py", ["GPU302"]]]
    assert {"gpudoctor.showPlan", "gpudoctor.watchRun"} <= set(seen["commands"])
    assert not seen["errors"]


def test_what_the_extension_offers_is_what_the_server_knows() -> None:
    from gpudoctor.config import LAUNCHES
    from gpudoctor.server.client_settings import settings_of

    known = json.loads((EXTENSION / "package.json").read_text())["contributes"]["configuration"]["properties"]
    defaults = {key.partition(".")[2]: value["default"] for key, value in known.items() if key != "gpudoctor.path"}
    # As the extension sends them: none is unknown.
    assert settings_of(defaults) == settings_of({})
    assert known["gpudoctor.launch"]["enum"] == ["", *LAUNCHES]
