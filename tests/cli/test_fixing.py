"""`gpudoctor lint --fix`, `--unsafe-fixes` and `--diff`, from the command line to the bytes of the files."""

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.lint.source import atomic_write

PROGRAM = textwrap.dedent(
    '''\
    """Prüfung."""
    import torch
    from torch.utils.data import DataLoader, RandomSampler, TensorDataset

    data = TensorDataset(torch.randn(8, 2))
    sampler = RandomSampler(data)
    loader = DataLoader(data, sampler=sampler, shuffle=True)
    '''
)
FIXED = PROGRAM.replace(", shuffle=True", "")
LAYOUTS = {
    "DataLoader(data, shuffle=True, sampler=sampler)": "DataLoader(data, sampler=sampler)",
    "DataLoader(data, sampler=sampler, shuffle=True,)": "DataLoader(data, sampler=sampler,)",
    "DataLoader(\n    data,  # all of it\n    shuffle=True,  # mixed\n    sampler=sampler,\n)": (
        "DataLoader(\n    data,  # all of it\n    sampler=sampler,\n)"
    ),
    "DataLoader(data,\n           sampler=sampler,\n           shuffle=(True))": (
        "DataLoader(data,\n           sampler=sampler)"
    ),
}


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def fix(*options: str) -> int:
    return cli.main(["lint", "--no-cache", "--select=GPU303", "--fix", *options, "train.py"])


def test_fix_writes_and_says_what_it_did(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fix() == 0
    assert train.read_text(encoding="utf-8") == FIXED
    said = capsys.readouterr()
    assert said.out == ""
    assert "train.py: 1 fixed: GPU303 shuffle-with-sampler" in said.err


def test_diff_writes_nothing_and_can_be_applied(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "--no-cache", "--select=GPU303", "--diff", "train.py"]) == 1
    assert train.read_text(encoding="utf-8") == PROGRAM
    diff = capsys.readouterr().out
    subprocess.run(["git", "apply", "-"], input=diff, text=True, check=True, cwd=train.parent)
    assert train.read_text(encoding="utf-8") == FIXED
    assert cli.main(["lint", "--no-cache", "--select=GPU303", "--diff", "train.py"]) == 0


@pytest.mark.parametrize("before", LAYOUTS, ids=["first", "comma", "lines", "aligned"])
def test_arguments_go_with_their_commas_lines_and_comments(train: Path, before: str) -> None:
    text = PROGRAM.replace("DataLoader(data, sampler=sampler, shuffle=True)", before)
    train.write_text(text, encoding="utf-8")
    assert fix() == 0
    assert train.read_text(encoding="utf-8") == text.replace(before, LAYOUTS[before])


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_encoding_and_line_ends_stay(train: Path, newline: str, encoding: str) -> None:
    head = f"# coding: {encoding}\n" if encoding == "latin-1" else ""
    train.write_bytes((head + PROGRAM).replace("\n", newline).encode(encoding))
    assert fix() == 0
    assert train.read_bytes() == (head + FIXED).replace("\n", newline).encode(encoding)


def test_mode_and_links_stay(train: Path) -> None:
    real = train.rename(train.with_name("real.py"))
    train.symlink_to(real)
    real.chmod(0o750)
    assert fix() == 0
    assert train.is_symlink()
    assert real.read_text(encoding="utf-8") == FIXED
    assert stat.S_IMODE(real.stat().st_mode) == 0o750
    assert sorted(os.listdir(train.parent)) == ["real.py", "train.py"]


def test_a_file_that_was_changed_meanwhile_is_left_alone(
    train: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    digest_of = atomic_write.digest_of
    monkeypatch.setattr(atomic_write, "digest_of", lambda data: digest_of(data + b"changed"))
    assert fix() == 2
    assert train.read_text(encoding="utf-8") == PROGRAM
    assert "changed meanwhile" in capsys.readouterr().err


def test_a_file_that_cannot_be_replaced_leaves_no_draft(
    train: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    assert fix() == 2
    assert os.listdir(train.parent) == ["train.py"]
    assert "No space left" in capsys.readouterr().err


def test_machine_formats_carry_the_edits(train: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["lint", "--no-cache", "--select=GPU303", "--fail-on=never", "train.py"]
    assert cli.main([*command, "--output-format=json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"][0]["fix"]
    edit = found["edits"][0]
    assert (found["safety"], edit["path"], edit["line"], edit["text"]) == ("safe", "train.py", 7, "")
    line = PROGRAM.splitlines()[6]
    assert line[edit["column"] - 1 : edit["end_column"] - 1] == ", shuffle=True"
    assert cli.main([*command, "--output-format=sarif"]) == 0
    change = json.loads(capsys.readouterr().out)["runs"][0]["results"][0]["fixes"][0]["artifactChanges"][0]
    assert change["artifactLocation"]["uri"] == "train.py"
    assert change["replacements"][0]["deletedRegion"]["startLine"] == 7


@pytest.mark.parametrize("options", [["--unsafe-fixes", "train.py"], ["--fix", "-", "train.py"]])
def test_options_that_do_not_go_together(options: list[str], train: Path) -> None:
    assert cli.main(["lint", *options]) == 2


def test_a_program_without_mistakes_costs_nothing(train: Path) -> None:
    train.write_text(FIXED, encoding="utf-8")
    code = "import sys; from gpudoctor import cli; cli.main(['lint', '--no-cache', 'train.py']); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=train.parent)
    assert not [name for name in run.stdout.split() if name.startswith("gpudoctor.lint.fix") or name == "libcst"]


@pytest.mark.parametrize("option", ["--output-format=full", "--output-format=concise"])
def test_that_something_can_be_fixed_is_known_without_libcst(train: Path, option: str) -> None:
    found, loaded = linted(train, option)
    assert "[*] 1 fixable" in found
    assert "libcst" not in loaded


@pytest.mark.parametrize("option", ["--output-format=json", "--output-format=sarif", "--diff", "--fix"])
def test_libcst_writes_the_edits(train: Path, option: str) -> None:
    assert "libcst" in linted(train, option)[1]


def linted(train: Path, option: str) -> tuple[str, list[str]]:
    """What a lint said, and the modules that it loaded."""
    code = (
        "import sys; from gpudoctor import cli; cli.main(['lint', '--no-cache', sys.argv[1], 'train.py']); "
        "print(*sys.modules)"
    )
    command = [sys.executable, "-c", code, option]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=train.parent)
    return run.stderr, run.stdout.split()


STREAM = """\
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        with open("numbers.txt") as file:
            for line in file:
                yield torch.tensor([float(word) for word in line.split()])


dist.init_process_group("gloo")
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for batch in DataLoader(Stream(), batch_size=8):
        optimizer.zero_grad()
        model(batch).mean().backward()
        optimizer.step()
dist.destroy_process_group()
"""


def test_what_a_fix_only_brings_to_light_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "train.py"
    program.write_text(STREAM)
    cli.main(["lint", "--no-cache", "--fix", "--unsafe-fixes", "--output-format=json", str(program)])
    codes = [each["code"] for each in json.loads(capsys.readouterr().out)["findings"]]
    # Before the model is wrapped, each rank trains one of its own, on whatever it reads.
    assert "GPU309" in codes
    assert "GPU101" not in codes
    assert "DistributedDataParallel(model)" in program.read_text()
