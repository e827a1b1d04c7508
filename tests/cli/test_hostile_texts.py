"""Texts of a program, paths, settings and options reach no terminal and no log raw: whatever the format or stream."""

import ast
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.report.formats import FORMATS
from gpudoctor.report.text import Style, written
from gpudoctor.visible import defused, visible

EVIL = "\x1b]0;pwned\x07\n::error file=x::injected\n##[error]no\r\x9b2J\x7f\u202e\u2028.pt"
PROGRAM = f"""\
import argparse, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

class Net(torch.nn.Linear):
    pass  # \x1b[31m in a comment \u202e ##[error]no

dist.init_process_group("nccl")
model = DDP(Net(2, 2).cuda(), device_ids=[0])
text = '''
  ::error::in a text
'''
torch.save(model.state_dict(), {EVIL.encode("unicode_escape").decode()!r})  # \x1b[31m
if dist.get_rank() == 0:
    torch.save({{}}, {EVIL!a})
torch.save({{}}, {EVIL!a})
getattr(torch, {EVIL!a})(model)
model.module.load_state_dict(torch.load({EVIL!a}))
"""
SEEN = re.compile(rb"\x1b\[[0-9;]*m")
COMMAND = re.compile(r"^\s*::|##\w*\[", re.MULTILINE)

Run = Callable[..., tuple[int, bytes, bytes]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs a command in an empty folder; its exit code and the bytes of both streams."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, bytes, bytes]:
        code = cli.main(arguments)
        return code, *capfdbinary.readouterr()

    return call


def refuse_steering(text: bytes, *, colour: bool = False, commands: bool = False) -> None:
    """No control characters but line ends, and no commands for a service."""
    shown = (SEEN.sub(b"", text) if colour else text).decode()
    assert not [char for char in shown if char != "\n" and (ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0)], text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u2028\u2029]", shown), text
    assert commands or not COMMAND.search(shown), text


@pytest.mark.parametrize("colour", ["never", "always"])
@pytest.mark.parametrize("form", FORMATS)
def test_texts_of_a_program(run: Run, form: str, colour: str) -> None:
    Path("train.py").write_text(PROGRAM, encoding="utf-8")
    options = ("--output-format", form, "--color", colour, "--no-cache")
    code, out, err = run("lint", *options, "train.py")
    assert code == 1
    assert b"GPU601" in out
    refuse_steering(out, colour=colour == "always", commands=form not in ("full", "concise"))
    refuse_steering(err)
    if form == "github":
        assert all(line.startswith(b"::") for line in out.splitlines())
    run("lint", *options, "train.py", "--output-file", "report")
    refuse_steering(Path("report").read_bytes(), colour=colour == "always", commands=form != "full")


def test_documents_stay_exact(run: Run) -> None:
    Path("train.py").write_text(PROGRAM, encoding="utf-8")
    _, out, _ = run("lint", "--output-format", "json", "--no-cache", "train.py")
    assert any(EVIL in finding["message"] for finding in json.loads(out)["findings"])


def test_a_text_cannot_pass_as_our_own_colour(run: Run) -> None:
    Path("train.py").write_text(PROGRAM.replace("]0;pwned", "[31mred"), encoding="utf-8")
    _, out, _ = run("lint", "--color", "always", "--no-cache", "train.py")
    assert b"\\x1b[31mred" in out
    assert b"\x1b[31mred" not in out


@pytest.mark.parametrize("colour", ["never", "always"])
@pytest.mark.parametrize(
    "command", [("lint", "--diff", "--unsafe-fixes"), ("lint", "--add-ignores", "--diff"), ("plan",)]
)
def test_patches_and_plans(run: Run, command: tuple[str, ...], colour: str) -> None:
    Path("train.py").write_text(PROGRAM, encoding="utf-8")
    _, out, err = run(*command, "--color", colour, "train.py")
    assert out
    refuse_steering(out, colour=colour == "always")
    refuse_steering(err)
    if "--diff" in command:
        assert b"no patch to apply" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", EVIL),
        ("lint", f"{EVIL}.py"),
        (EVIL,),
        ("lint", "--\x1b[31mpwned"),
        ("lint", "--select", EVIL),
        ("lint", "--output-format", EVIL),
        ("lint", "--config", EVIL),
        ("lint", "--since", EVIL),
        ("lint", "--baseline", f"{EVIL}/b"),
        ("lint", "--output-file", f"{EVIL}/x"),
        ("lint", "--jobs", EVIL),
        ("explain", EVIL),
        ("plan", EVIL),
        ("completion", EVIL),
        ("run", EVIL),
        ("probe", "--data", EVIL),
    ],
)
def test_arguments(run: Run, arguments: tuple[str, ...]) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    code, out, err = run(*arguments)
    assert code == 2
    assert b"pwned" in err
    refuse_steering(out + err)
    assert len(err.splitlines()) <= 2


@pytest.mark.parametrize(
    "settings",
    [
        '"\\u001b[31mkey\\n::error::x" = 1',
        'select = ["\\u001b[31m\\n::error::x"]',
        'output-format = "\\u001b[31m\\n::error::x"',
        'per-file-ignores = { "\\u001b[31m\\n::error::x" = ["GPU1\\u001b"] }',
        "x = \x1b[31m",
    ],
)
def test_settings(run: Run, settings: str) -> None:
    Path("pyproject.toml").write_text(f"[tool.gpudoctor]\n{settings}\n", encoding="utf-8")
    code, out, err = run("lint", "--verbose")
    assert code == 2
    refuse_steering(out + err)


@pytest.mark.slow
def test_names_of_files(run: Run) -> None:
    folder = Path("\x1b[31mx\n::error::x")
    folder.mkdir()
    (folder / "\x9b2J\n::error::y.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "broken\x1b.py").write_text("import torch\n(", encoding="utf-8")
    for options in (
        ("--verbose",),
        ("--ignore", "GPU001"),
        ("--statistics",),
        ("--diff",),
        ("--output-format", "github"),
    ):
        _, out, err = run("lint", *options)
        refuse_steering(out + err, commands="github" in options)
    _, out, err = run("lint", "--fix", "--unsafe-fixes", "--add-ignores")
    refuse_steering(out + err)


@pytest.mark.slow
def test_bugs_of_ours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> int:
        raise KeyError(EVIL)

    monkeypatch.setattr("gpudoctor.cli.lint.settings_for", crash)
    monkeypatch.setenv("GPUDOCTOR_DEBUG", "1")
    code, _, err = run("lint", EVIL)
    assert code == 3
    assert b"Traceback" in err
    refuse_steering(err)


@pytest.mark.slow
def test_variables_of_the_machine(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", EVIL)
    code, out, err = run("env")
    assert code == 0
    assert b"pwned" in out
    refuse_steering(out + err)


def test_a_character_is_shown_as_its_escape() -> None:
    assert visible("a\x1b\x7f\n\t\u202e\udc80é│") == "a\\x1b\\x7f\\n\\t\\u202e\\udc80é│"
    assert visible("a\tb\r", "\t") == "a\tb\\r"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("::error::x", "\\::error::x"),
        (" \u3000::x", " \u3000\\::x"),
        ("see a::b", "see a::b"),
        ("x ##[group]", "x #\\#[group]"),
        ("##vso[task.x]", "#\\#vso[task.x]"),
        ("## heading", "## heading"),
    ],
)
def test_commands_of_services(line: str, shown: str) -> None:
    assert defused(line) == shown


def test_colours_do_not_hide_a_command() -> None:
    style = Style(colour=True)
    assert written([style.paint("::error::x", "bold")]) == "\x1b[1m\\::error::x\x1b[0m\n"
    assert written([f"  {style.paint('##[x]', 'dim')}"]) == "  \x1b[2m#\\#[x]\x1b[0m\n"


def test_nothing_is_printed_past_the_border() -> None:
    """Whatever is written for people goes through `say`, `write_lines` or `write_out`."""
    folder = Path(cli.__file__).parent
    past = [
        f"{path.name}:{node.lineno}"
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (ast.unparse(node.func) in ("print", "sys.stdout.write", "sys.stderr.write", "traceback.print_exception"))
        and path.name != "output.py"
    ]
    assert past == []
