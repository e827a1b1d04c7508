"""A real editor: Neovim, without a screen."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
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
    run = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert answer.exists(), run.stderr
    seen = json.loads(answer.read_text())
    assert (seen["bad"], seen["fixed"]) == (["GPU302"], [])
    assert "set_epoch" in seen["title"]
    assert "sampler.set_epoch(epoch)" in seen["text"]


LOOK = """
vim.wait(60000, function() return #vim.diagnostic.get() > 0 end, 100)
local codes = vim.tbl_map(function(each) return each.code or each.user_data.lsp.code end, vim.diagnostic.get())
vim.fn.writefile(codes, "answer.txt")
vim.cmd("qa!")
"""


@pytest.mark.skipif(not NEOVIM, reason="nvim is not installed")
def test_the_settings_of_the_guide_show_findings(tmp_path: Path) -> None:
    guide = (ROOT / "gpudoctor" / "guides" / "editors.md").read_text(encoding="utf-8")
    written = re.findall(r"(?:^    .*\n|^\n)+", guide.partition("## Neovim\n")[2].partition("\n## ")[0], re.MULTILINE)
    newer, older = [textwrap.dedent(each) for each in written if each.strip()]
    version = subprocess.run([str(NEOVIM), "--version"], capture_output=True, text=True, timeout=600, check=True).stdout
    found = re.match(r"NVIM v0\.(\d+)", version)
    (tmp_path / "init.lua").write_text(older if found and int(found[1]) < 11 else newer)
    (tmp_path / "look.lua").write_text(LOOK)
    (tmp_path / "train.py").write_text(BAD)
    command = tmp_path / "gpudoctor"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m gpudoctor "$@"\n')
    command.chmod(0o755)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "rules")]), "HOME": str(tmp_path)}
    env["PATH"] = os.pathsep.join([str(tmp_path), env["PATH"]])
    run = subprocess.run(
        [str(NEOVIM), "--headless", "-u", "init.lua", "train.py", "-c", "luafile look.lua"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (tmp_path / "answer.txt").exists(), run.stderr
    assert (tmp_path / "answer.txt").read_text().split() == ["GPU302"], run.stderr
