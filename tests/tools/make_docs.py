"""Write the generated part of the README: the table of rules.

    python tests/tools/make_docs.py [--check]

It stands between `<!-- rules -->` and `<!-- /rules -->`. With --check nothing is written, and the exit code is 1
where something would be.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from gpudoctor.registry import find_rules

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "README.md"


def main(arguments: list[str]) -> int:
    """Bring the README up to date, or say that it is not."""
    before = README.read_text(encoding="utf-8")
    after = generated(before)
    if before == after:
        return 0
    if "--check" in arguments:
        print("README.md is out of date: run `python tests/tools/make_docs.py`", file=sys.stderr)
        return 1
    README.write_text(after, encoding="utf-8")
    return 0


def generated(text: str) -> str:
    """The text with its generated part renewed."""
    part = re.compile(r"(<!-- rules -->\n).*?(<!-- /rules -->)", re.DOTALL)
    if not part.search(text):
        raise SystemExit("make_docs: README.md has no part `rules`")
    return part.sub(lambda match: f"{match[1]}{rules_table()}\n{match[2]}", text)


def rules_table() -> str:
    """All built-in rules, one a line."""
    cards = [card for card in find_rules().cards if card.module.startswith("gpudoctor_rules.")]
    rows = [f"| {card.code} | {card.name} | {card.severity.value} | {card.summary} |" for card in cards]
    return "\n".join(["| code | name | severity | what it finds |", "|---|---|---|---|", *rows])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
