"""Write the generated parts of the README: the table of rules, and what lint says of the example.

    python tests/tools/make_docs.py [--check]

A part stands between `<!-- NAME -->` and `<!-- /NAME -->`. With --check nothing is written, and the exit code is 1
where something would be.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from pathlib import Path

from gpudoctor import cli
from gpudoctor.registry import find_rules

ROOT = Path(__file__).resolve().parent.parent.parent
README = ROOT / "README.md"
EXAMPLE = ("lint", "--select=GPU501", "fixtures/programs/broken_ddp/train.py")
"""One finding of the program that the README tells its readers to lint: the one whose causes stand in three files."""


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
    """The text with its generated parts renewed."""
    for name, make in {"rules": rules_table, "example": example}.items():
        part = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not part.search(text):
            raise SystemExit(f"make_docs: README.md has no part `{name}`")
        made = make()
        text = part.sub(lambda match, made=made: f"{match[1]}{made}\n{match[2]}", text)
    return text


def rules_table() -> str:
    """All built-in rules, one a line."""
    cards = [card for card in find_rules().cards if card.module.startswith("gpudoctor_rules.")]
    rows = [f"| {card.code} | {card.name} | {card.severity.value} | {card.summary} |" for card in cards]
    return "\n".join(["| code | name | severity | what it finds |", "|---|---|---|---|", *rows])


def example() -> str:
    """The example's command and its output, as a pipe of 80 columns sees it."""
    out, err = io.StringIO(), io.StringIO()
    before, columns = Path.cwd(), os.environ.get("COLUMNS")
    os.chdir(ROOT)
    os.environ["COLUMNS"] = "80"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = cli.main([*EXAMPLE, "--no-cache"])
    finally:
        os.chdir(before)
        os.environ.pop("COLUMNS")
        if columns is not None:
            os.environ["COLUMNS"] = columns
    if status != 1:
        raise SystemExit(f"make_docs: lint ended with {status}\n{err.getvalue()}")
    return f"```console\n$ gpudoctor {' '.join(EXAMPLE)}\n{out.getvalue().rstrip()}\n```"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
