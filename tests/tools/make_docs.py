"""Write the generated parts of the documentation: the tables of rules and of settings in `docs`.

    python tests/tools/make_docs.py [--check]

Each stands between marks such as `<!-- rules -->` and `<!-- /rules -->`. With --check nothing is written, and the exit
code is 1 where something would be.
"""

import re
import sys
from pathlib import Path

from gpudoctor.config import SETTINGS
from gpudoctor.registry import find_rules

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def main(arguments: list[str]) -> int:
    """Bring the pages up to date, or say which are not."""
    stale = 0
    for part, table in (("rules", rules_table()), ("settings", settings_table())):
        page = DOCS / f"{part}.md"
        before = page.read_text(encoding="utf-8")
        after = generated(before, part, table)
        if before == after:
            continue
        stale += 1
        if "--check" in arguments:
            print(f"docs/{page.name} is out of date: run `python tests/tools/make_docs.py`", file=sys.stderr)
        else:
            page.write_text(after, encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


def generated(text: str, part: str, table: str) -> str:
    """The text with its generated part renewed."""
    found = re.compile(rf"(<!-- {part} -->\n).*?(<!-- /{part} -->)", re.DOTALL)
    if not found.search(text):
        raise SystemExit(f"make_docs: docs/{part}.md has no part `{part}`")
    return found.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def rules_table() -> str:
    """All built-in rules, one a line."""
    cards = [card for card in find_rules().cards if card.module.startswith("gpudoctor_rules.")]
    rows = [f"| {card.code} | {card.name} | {card.severity.value} | {card.summary} |" for card in cards]
    return "\n".join(["| code | name | severity | what it finds |", "|---|---|---|---|", *rows])


def settings_table() -> str:
    """All settings, one a line."""
    rows = [
        f"| `{key}` | {', '.join(f'`{word}`' for word in setting.choices)} | {setting.meaning} |"
        for key, setting in SETTINGS.items()
    ]
    return "\n".join(["| setting | one of | what it does |", "|---|---|---|", *rows])


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
