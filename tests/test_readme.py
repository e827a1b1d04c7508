"""The README and the pages behind it hold what they promise: commands run as they stand, tables are what comes out,
links lead somewhere."""

import contextlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.cli import _parser
from tests.support.installs import copy_checkout, outside

_ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    *(
        file.relative_to(_ROOT).as_posix()
        for folder in ("docs", "gpudoctor/guides")
        for file in (_ROOT / folder).glob("*.md")
    ),
]


@pytest.fixture
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("tool", ["make_docs.py", "make_picture.py"])
def test_generated_parts_are_up_to_date(repository: Path, tool: str) -> None:
    command = [sys.executable, f"tests/tools/{tool}", "--check"]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False, timeout=600)
    assert run.returncode == 0, run.stderr


def test_line_for_users_runs_as_it_stands(readme: str, tmp_path: Path) -> None:
    line = next(line for line in _commands(readme) if "gpudoctor lint" in line and "pip install" in line)
    checkout = copy_checkout(tmp_path / "gpudoctor")
    run = subprocess.run(
        ["bash", "-c", line], cwd=checkout, capture_output=True, text=True, check=False, timeout=600, env=outside()
    )
    assert run.returncode == 1, run.stdout + run.stderr
    numbers = re.findall(r"\d+", run.stderr.rpartition("Found ")[2].partition(" in ")[0])
    assert "It names four mistakes" in readme
    assert sum(map(int, numbers)) == 4, run.stdout + run.stderr


def test_what_it_shows_of_a_report_is_what_is_printed(readme: str, repository: Path) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    command = [sys.executable, "-m", "gpudoctor", "lint", "train.py"]
    folder = repository / "fixtures" / "programs" / "broken_ddp"
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    assert shown in run.stdout


def test_line_for_contributors_is_what_ci_runs(readme: str, repository: Path) -> None:
    line = next(line for line in _commands(readme) if "pytest" in line)
    assert (repository / ".ci" / "run").read_text(encoding="utf-8").rstrip().splitlines()[-1] == line


def test_it_is_read_in_five_minutes(readme: str) -> None:
    assert len(readme.encode()) <= 12 * 1024
    first_screen = readme.partition("## Try it")[0]
    assert "Not seen on hardware yet" in first_screen


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str, repository: Path) -> None:
    """As GitHub shows them: to files, and to headings of files."""
    file = repository / document
    for target, _, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(#([^)]+))?\)", _without_code(file)):
        goal = (file.parent / target).resolve() if target else file
        assert goal.exists(), target
        assert not anchor or anchor in _headings(goal), f"{target}#{anchor}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_exist(repository: Path, document: str) -> None:
    text = (repository / document).read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w/.])(?:fixtures|tests|rules|gpudoctor/lint)/[\w./-]*\w", text)
    assert named or document not in ("README.md", "CONTRIBUTING.md")
    assert not [name for name in named if not (repository / name).exists()]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_are_taken(document: str, repository: Path) -> None:
    """The options of each command of ours that stands in a block: what is renamed is renamed there, too."""
    file = repository / document
    text = file.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:sh|yaml)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    if file.parent.name == "guides":
        blocks.append("\n".join(re.findall(r"^    (.*)$", text, re.MULTILINE)))
    for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
        for command in re.findall(r"(?<![\w/.+-])gpudoctor (?=[a-z-])([^|&;>]*)", line.partition(" # ")[0]):
            words = shlex.split(command, comments=True)
            parser, _ = _parser(words)
            with contextlib.suppress(SystemExit):
                parser.parse_args(words)


def _without_code(file: Path) -> str:
    text = re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^    .*$", "", text, flags=re.MULTILINE) if file.parent.name == "guides" else text


def _headings(file: Path) -> set[str]:
    """The headings of a file as they are linked to."""
    titles = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def _commands(text: str) -> list[str]:
    """The lines of the blocks that are meant for a shell."""
    return [line for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for line in block.splitlines()]
