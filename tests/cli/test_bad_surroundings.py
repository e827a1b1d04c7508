"""What a shell, a container or a strange disk can do to a command: it ends with a message and an exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.lint.source.size_limits import MAX_NOTEBOOK_BYTES

REPOSITORY = Path(__file__).resolve().parent.parent.parent
WRONG = "import torch\nmodel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "train.py").write_text(WRONG)
    monkeypatch.chdir(folder)
    return folder


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in which `lint` is the command."""
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "rules")])
    line = (
        f'lint() {{ "{sys.executable}" -m gpudoctor lint --select GPU0,GPU401 --output-format concise "$@"; }}; {line}'
    )
    return subprocess.run(
        ["bash", "-c", line], capture_output=True, timeout=600, env={**os.environ, "PYTHONPATH": path, **environment}
    )


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        pytest.param("lint train.py >&-", 1, b"Found 1 error", id="output closed"),
        pytest.param("lint train.py 2>&-", 1, b"", id="errors closed"),
        pytest.param("lint - <&-", 0, b"No mistake", id="input closed"),
        pytest.param("lint train.py 2>/dev/full", 1, b"", id="errors full"),
        pytest.param("lint train.py >/dev/full", 2, b"standard output cannot be written: No space left", id="full"),
        pytest.param(
            "mkdir gone; cd gone; rmdir ../gone; lint .", 2, b"the working directory does not exist", id="no folder"
        ),
        pytest.param(
            "mkdir gone; cd gone; rmdir ../gone; lint $OLDPWD/train.py", 2, b"does not exist any more", id="no here"
        ),
        pytest.param("ln -s nowhere.py a.py; lint a.py", 1, b"a.py:1:1: error: GPU001", id="link to nothing"),
        pytest.param("ln -s a.py a.py; lint .", 1, b"Found 1 error in 1 file", id="link to itself"),
        pytest.param("mkfifo setup.py; rm pyproject.toml; lint train.py", 1, b"Found 1 error", id="setup.py is a pipe"),
        pytest.param(
            # The limit is what a full disk is: some bytes go, and no more.
            "(ulimit -f 0; lint --no-cache --output-file out.txt train.py); code=$?; ls >&2; exit $code",
            2,
            b"out.txt: cannot be written: File too large\npyproject.toml\ntrain.py\n",
            id="report on a full disk",
        ),
        pytest.param("ulimit -v 1000000; lint - </dev/zero", 2, b"larger than 8 MiB", id="endless input"),
        pytest.param(
            "ulimit -v 1000000; lint --stdin-filename a.ipynb - </dev/zero", 2, b"larger than 48 MiB", id="notebook"
        ),
        pytest.param(
            "ulimit -v 1000000; lint --baseline /dev/zero train.py", 2, b"larger than 16 MiB", id="endless baseline"
        ),
        pytest.param("mkfifo pyproject.toml a.py 2>&-; lint .", 1, b"Found 1 error in 1 file", id="pipes"),
    ],
)
@pytest.mark.usefixtures("project")
def test_it_ends_with_a_message(line: str, code: int, said: bytes) -> None:
    ended = shell(line)
    assert ended.returncode == code, ended.stderr
    assert said in ended.stderr + ended.stdout
    assert b"Traceback" not in ended.stderr
    assert b"bug in gpudoctor" not in ended.stderr


@pytest.mark.parametrize("name", [b"caf\xe9.py", b"new\nline.py", b"\x1b[31mred.py", "größe.py".encode()])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.usefixtures("project")
def test_names_that_are_no_text(name: bytes, encoding: str) -> None:
    """They are shown on one line, and what is known about the file by its name still holds."""
    with open(name, "w") as file:
        file.write(WRONG)
    quoted = b"$'" + b"".join(b"\\x%02x" % byte for byte in name) + b"'"
    ended = shell(f"lint {quoted.decode()}", PYTHONIOENCODING=encoding)
    assert ended.returncode == 1, ended.stderr
    (line,) = ended.stdout.splitlines()
    assert b"\x1b" not in line
    assert b".py:2:9: error: GPU401" in line
    document = json.loads(shell(f"lint --output-format json {quoted.decode()}").stdout)
    assert [finding["line"] for finding in document["findings"]] == [2]
    with open(name, "w") as file:
        file.write(WRONG.rstrip() + "  # gpudoctor: ignore[GPU401]\n")
    assert shell(f"lint {quoted.decode()}").returncode == 0


def test_links_out_of_the_project_are_not_followed(project: Path) -> None:
    (project.parent / "secret.py").write_text("import torch\npassword = (\n")
    (project / "a.py").symlink_to("../secret.py")
    (project / "b.py").symlink_to("train.py")
    assert b"secret" not in shell("lint . 2>&1").stdout
    assert b"secret" in shell("lint a.py").stdout, "unless they are named"


@pytest.mark.skipif(os.geteuid() == 0, reason="everything is readable to root")
def test_a_file_that_may_not_be_read_does_not_hide_the_others(project: Path) -> None:
    (project / "secret.py").write_text(WRONG)
    (project / "secret.py").chmod(0)
    (project / "shut").mkdir(mode=0)
    ended = shell("lint --output-format full .")
    assert b"secret.py:1:1" in ended.stdout
    assert b"permission denied" in ended.stdout
    assert b"train.py:2:9" in ended.stdout
    assert b"the folder `shut` cannot be read" in ended.stderr
    assert ended.returncode == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'select = ["GPU4"]\nselekt = ["GPU1"]\n', "gpudoctor.toml:2: unknown key `selekt`; did you mean `select`?"),
        (b"select = \xe9\n", "gpudoctor.toml: cannot be read: it is not UTF-8 (at line 1)"),
        (b"x = " + b"[" * 5000, "gpudoctor.toml: cannot be read: it is nested too deeply"),
    ],
)
def test_configuration_files_that_are_none(project: Path, text: bytes, said: str) -> None:
    (project / "gpudoctor.toml").write_bytes(text)
    ended = shell("lint .")
    assert ended.returncode == 2
    assert said in ended.stderr.decode()


def test_a_shared_configuration_file_without_tables(project: Path) -> None:
    (project / "pyproject.toml").write_text("tool = 1  # gpudoctor\n")
    assert b"`tool` must be a table" in shell("lint .").stderr


def test_a_configuration_file_with_a_byte_order_mark(project: Path) -> None:
    (project / "gpudoctor.toml").write_bytes(b"\xef\xbb\xbffail-on = 'never'\n")
    assert shell("lint .").returncode == 0


@pytest.mark.usefixtures("project")
def test_a_limit_is_told_and_what_was_seen_stands() -> None:
    with open("train.py", "w") as file:
        file.write("from torch.nn import DataParallel, Linear\nmodel = DataParallel(DataParallel(Linear(1, 1)))\n")
        file.write("x = 1\ny = " + " + ".join(["x"] * 900) + "\n")
    ended = shell("lint --extend-select GPU105 train.py")
    assert (ended.returncode, ended.stdout.count(b"GPU105")) == (1, 1)
    assert b"train.py: stopped at line 4 (the program is nested too deeply to follow)" in ended.stderr
    assert b"not followed to its end" not in ended.stderr
    (error,) = json.loads(shell("lint --output-format json - < train.py").stdout)["errors"]
    assert "not followed to its end" in error["message"]
    assert shell("lint --quiet train.py").stderr == b""


@pytest.mark.usefixtures("project")
def test_of_many_files_that_reach_a_limit_some_are_named() -> None:
    for name in "abcdefg":
        with open(f"{name}.py", "w") as file:
            file.write("import torch\nx = torch.ones(1)\nprint(x" + " + x" * 900 + ")\n")
    told = shell("lint .").stderr.splitlines()
    assert sum(b"stopped at line 3" in line for line in told) == 4
    assert b"3 more programs likewise; `--verbose` names all" in told
    assert shell("lint --verbose .").stderr.count(b"stopped at line 3") == 7


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize("where", ["source", "output"])
@pytest.mark.usefixtures("project")
def test_the_largest_notebook_takes_little_memory(where: str) -> None:
    """One sign beyond U+FFFF makes four bytes of each in it."""
    text = "# " + "x" * (MAX_NOTEBOOK_BYTES - 1000) + "\U0001f600"
    cell = {"cell_type": "code", "metadata": {}, "source": ["import torch"], "outputs": []}
    cell |= {"source": text} if where == "source" else {"outputs": [text]}
    document = {"cells": [cell], "metadata": {}, "nbformat": 4}
    with open("large.ipynb", "w", encoding="utf-8") as file:
        file.write(json.dumps(document, ensure_ascii=False) + "\n")
    code = "from gpudoctor import cli; cli.main(['lint', '--no-cache', 'large.ipynb']); "
    # What `resource` tells may be of this process.
    code += "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert ("its cells are larger than 8 MiB" in ended.stdout) is (where == "source")
    assert int(ended.stdout.split()[-1]) < 500_000
