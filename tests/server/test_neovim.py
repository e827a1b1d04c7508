"""A real editor: Neovim, without a screen."""

from __future__ import annotations

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

NEOVIM = shutil.which("nvim")


@pytest.mark.skipif(not NEOVIM, reason="nvim is not installed")
def test_neovim_shows_findings_and_makes_a_fix(tmp_path: Path) -> None:
    program, answer, begin = tmp_path / "train.py", tmp_path / "answer.json", tmp_path / "begin.lua"
    program.write_text(BAD)
    given = {
        "arg_command": "{" + ", ".join(map(json.dumps, [sys.executable, "-m", "gpudoctor", "server"])) + "}",
        "arg_program": json.dumps(str(program)),
        "arg_answer": json.dumps(str(answer)),
    }
    text = (Path(__file__).parent / "neovim.lua").read_text()
    begin.write_text("".join(f"{name} = {value}\n" for name, value in given.items()) + text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "rules")]), "HOME": str(tmp_path)}
    command = [str(NEOVIM), "--headless", "--clean", "-c", f"luafile {begin}"]
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=90, check=False)
    assert answer.exists(), run.stderr
    seen = json.loads(answer.read_text())
    assert (seen["bad"], seen["fixed"]) == (["GPU302"], [])
    assert "set_epoch" in seen["title"]
    assert "sampler.set_epoch(epoch)" in seen["text"]
