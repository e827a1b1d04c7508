"""How long a lint of whole repositories takes: the first time, again, in one process and in two.

    python tests/benchmarks/trees.py FOLDER [FOLDER ...] [--rounds 5] [--torchfix /path/to/venv] [--ruff /path/to/ruff]

The commands take turns, as in `startup.py`. The first lint begins with an empty cache in each round, the second one
finds what the first has left. TorchFix and ruff take part where they are given.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from startup import Seconds, measure, spread

FIRST, TWO, AGAIN = "first lint, `--jobs 1`", "first lint, `--jobs 2`", "second lint"
PARSE = "`ast.parse` of each file"
_PARSE = """
import ast, os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        if name.endswith(".py"):
            try:
                ast.parse(open(os.path.join(folder, name), "rb").read())
            except SyntaxError:
                pass
"""


def main() -> int:
    """Measure each folder, and print a table for each in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--torchfix", type=Path, help="a virtual environment that has it")
    parser.add_argument("--ruff", type=Path, help="its executable")
    options = parser.parse_args()
    for folder in options.folders:
        with tempfile.TemporaryDirectory() as scratch:
            caches = Path(scratch) / "caches"
            seconds = measure(
                _commands(folder.resolve(), caches, options),
                options.rounds,
                Path(scratch),
                # So that each round begins as the very first one.
                before_round=lambda caches=caches: shutil.rmtree(caches, ignore_errors=True),  # type: ignore[misc]
            )
        print(table(folder, seconds), end="\n\n")
    return 0


def _commands(folder: Path, caches: Path, options: argparse.Namespace) -> dict[str, list[str]]:
    commands = {
        FIRST: _lint(folder, caches / "one", 1),
        AGAIN: _lint(folder, caches / "one", 1),
        TWO: _lint(folder, caches / "two", 2),
        PARSE: [sys.executable, "-c", _PARSE, str(folder)],
    }
    if options.ruff:
        commands["`ruff check --no-cache`"] = [str(options.ruff), "check", "--no-cache", "--quiet", str(folder)]
    if options.torchfix:
        commands["`torchfix`"] = [str(options.torchfix / "bin" / "torchfix"), str(folder)]
    return commands


def _lint(folder: Path, cache: Path, jobs: int) -> list[str]:
    program = str(Path(sys.executable).parent / "gpudoctor")
    return ["env", f"GPUDOCTOR_CACHE_DIR={cache}", program, "lint", "--quiet", f"--jobs={jobs}", str(folder)]


def table(folder: Path, seconds: Seconds) -> str:
    """What was measured, in Markdown: medians, and how many times the processor time of the others the lints take."""
    files = [path for path in folder.rglob("*.py") if path.is_file()]
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    rows = [
        f"{folder.resolve().name}: {len(files)} files, {lines:,} lines; {len(seconds[FIRST])} rounds, "
        f"{os.cpu_count()} CPUs",
        "",
        "| command | median s | of the processor | peak MiB | first lint takes so many times its processor time | "
        "second lint |",
        "|---|---|---|---|---|---|",
    ]
    for name, times in seconds.items():
        ratios = [
            spread(one.processor / other.processor for one, other in zip(seconds[base], times, strict=True))
            for base in (FIRST, AGAIN)
        ]
        clock, processor = (
            statistics.median(getattr(took, field) for took in times) for field in ("clock", "processor")
        )
        memory = max(took.memory for took in times)
        rows.append(f"| {name} | {clock:.2f} | {processor:.2f} | {memory} | {ratios[0]} | {ratios[1]} |")
    return "\n".join(rows)


if __name__ == "__main__":
    raise SystemExit(main())
