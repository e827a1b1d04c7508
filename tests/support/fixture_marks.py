"""What a fixture expects, written where it happens: `# GPU301: part of the message` and `# ok: GPU301 why`."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gpudoctor.registry import find_rules
from tests.support.linting import Seen

STUB = "SCAFFOLD"
"""A file with this word in it still is what tests/tools/new_rule.py made."""

FOLDERS = {card.code: "/".join(card.module.split(".")[1:]) for card in find_rules().cards}
"""Where in `fixtures/rules` the programs of each rule lie: as its file in the pack, by family and name."""

_RULES = Path(__file__).resolve().parents[2] / "fixtures" / "rules"
PRELUDES = (_RULES / "prelude.py", _RULES / "engine_prelude.py")
"""The helper files of all of them: what many programs do besides what they are about, and those of DeepSpeed."""

_CODES = {folder: code for code, folder in FOLDERS.items()}
_OF_LAUNCH = {card.code for card in find_rules().cards if card.of_launch}
_EXPECTED = re.compile(r"(?:#|//)\s*(GPU\d{3}):\s*([^#]*)")
_FINE = re.compile(r"(?:#|//)\s*ok:\s*(GPU\d{3})\b")


class Mark(NamedTuple):
    """One expectation: where, which rule, and for a finding a part of what it says."""

    path: str
    line: int
    code: str
    text: str = ""


class Case(NamedTuple):
    """One program among the fixtures of a rule: a file, or a folder that starts at `train.py` or `main.py`. Of a rule
    about launch files it is the whole folder."""

    code: str
    name: str
    entry: Path
    folder: Path

    @property
    def bad(self) -> bool:
        return self.name.startswith("bad_")

    @property
    def files(self) -> list[Path]:
        if self.entry.is_dir():
            return sorted(path for path in self.entry.rglob("*") if path.is_file() and ".fixed." not in path.name)
        if self.entry.parent != self.folder / self.name:
            return [self.entry]
        # What it is fixed to stands beside it.
        return sorted(path for path in self.entry.parent.rglob("*.py") if not path.name.endswith(".fixed.py"))


def cases(fixtures: Path) -> list[Case]:
    """All programs of the rules, in the order of their codes."""
    return [
        Case(code, path.stem, _entry(path, code), folder)
        for code in FOLDERS
        for folder in [fixtures / "rules" / FOLDERS[code]]
        for path in (sorted(folder.iterdir()) if folder.is_dir() else ())
        if path.name.startswith(("bad_", "good_")) and ".fixed." not in path.name
    ]


def code_of(path: Path) -> str:
    """The code of the rule whose fixtures a file is one of; empty where it is none."""
    parts = path.parts
    starts = (n for n in range(len(parts) - 2) if parts[n] == "rules")
    return next((code for n in starts if (code := _CODES.get("/".join(parts[n + 1 : n + 3])))), "")


def label_of(path: Path) -> str:
    """The name of a fixture for people: `GPU302/bad_two_files/train.py`."""
    code = code_of(path)
    return f"{code}/{path.as_posix().partition(f'/{FOLDERS[code]}/')[2]}"


def expected_in(case: Case) -> list[Mark]:
    """The findings that the files of a case ask for."""
    return [
        Mark(shown, number, match[1], match[2].strip())
        for shown, number, line in _lines(case)
        for match in _EXPECTED.finditer(line)
    ]


def fine_in(case: Case) -> list[Mark]:
    """The places where a rule must stay silent although that is hard."""
    return [Mark(shown, number, match[1]) for shown, number, line in _lines(case) for match in _FINE.finditer(line)]


def counted(seen: Iterable[Seen], case: Case) -> list[Seen]:
    """The findings that need a mark: all but the advice of other rules."""
    return [finding for finding in seen if finding.severity != "info" or finding.code == case.code]


def answers(seen: Seen, mark: Mark) -> bool:
    """The finding is the one that the mark asks for."""
    here = (seen.path, seen.line, seen.code) == (mark.path, mark.line, mark.code)
    text = mark.text.casefold()
    return here and (text in seen.message.casefold() or text in seen.remedy.casefold())


def _entry(path: Path, code: str) -> Path:
    if not path.is_dir() or code in _OF_LAUNCH:
        return path
    return path / "main.py" if (path / "main.py").exists() else path / "train.py"


def _lines(case: Case) -> list[tuple[str, int, str]]:
    return [
        (path.relative_to(case.folder).as_posix(), _meant(lines, number, path), line)
        for path in case.files
        for lines in [path.read_bytes().decode("utf-8", "replace").splitlines()]
        for number, line in enumerate(lines, start=1)
    ]


def _meant(lines: list[str], number: int, path: Path) -> int:
    """The line that a mark speaks of. Where a command goes on below there is no place for one: it stands above."""
    alone = path.suffix != ".py" and re.match(r"\s*(#|//) *(ok: )?GPU\d{3}", lines[number - 1])
    return _meant(lines, number + 1, path) if alone and number < len(lines) else number
