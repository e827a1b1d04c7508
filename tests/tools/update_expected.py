"""Rewrite what the fixtures expect from what lint finds now. Read the diff: it is what your change did.

    python tests/tools/update_expected.py [GPU302 ...]

In the bad programs of these rules, marks (`# GPU302: part of the message`) are added where a finding has none and taken
away where nothing is found any more. What a rule finds in a good program, or in a program of another rule, is yours to
mend. With no code given, the lists of fixtures/programs (expected.txt) are rewritten too.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.support.fixture_marks import FOLDERS, Case, answers, cases, expected_in  # noqa: E402
from tests.support.linting import lint, places  # noqa: E402

LONGEST = 60


def main(codes: list[str]) -> int:
    """Bring the marks of these rules up to date, of all where none is given."""
    for case in cases(ROOT / "fixtures"):
        if not codes or case.code in codes:
            _update(case)
    if not codes:
        for listed in sorted((ROOT / "fixtures" / "programs").glob("*/expected.txt")):
            _rewrite(listed, "".join(f"{line}\n" for line in places(listed.parent)))
    return 0


def _update(case: Case) -> None:
    seen = [s for s in lint(case.entry, folder=case.folder, extend=(case.code,)) if s.code == case.code]
    marks = [mark for mark in expected_in(case) if mark.code == case.code]
    stale = [mark for mark in marks if not any(answers(s, mark) for s in seen)]
    fresh = [s for s in seen if not any(answers(s, mark) for mark in marks)]
    if not case.bad:
        for finding in fresh:
            print(f"fixtures/rules/{FOLDERS[case.code]}/{finding.path}:{finding.line} is flagged, and should not be")
        return
    changes: dict[tuple[str, int], list[str]] = defaultdict(list)
    for mark in stale:
        changes[mark.path, mark.line] = []
    for finding in fresh:
        changes[finding.path, finding.line].append(f"  # {finding.code}: {_part(finding.message)}")
    stale_lines = {(mark.path, mark.line) for mark in stale}
    for path in {path for path, _ in changes}:
        lines = (case.folder / path).read_text(encoding="utf-8").splitlines(keepends=True)
        for (_, number), added in ((key, value) for key, value in changes.items() if key[0] == path):
            line = lines[number - 1].rstrip("\n")
            if (path, number) in stale_lines:
                line = re.sub(rf"\s*#\s*{case.code}:[^#]*", "", line)
            lines[number - 1] = line + "".join(added) + "\n"
        _rewrite(case.folder / path, "".join(lines))


def _part(message: str) -> str:
    """A beginning of the message, short enough for the end of a line."""
    start = message.split("#")[0].split("\n")[0]
    return start if len(start) <= LONGEST else start[:LONGEST].rpartition(" ")[0]


def _rewrite(path: Path, text: str) -> None:
    if path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
