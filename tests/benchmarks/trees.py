"""How long a lint of whole repositories takes: the first time, again, in one process and in two.

    python tests/benchmarks/trees.py FOLDER [FOLDER ...] [--every 10 3 1] [--rounds 5] [--torchfix /path/to/venv]
        [--ruff /path/to/ruff]

The commands take turns, as in `startup.py`. The first lint begins with an empty cache in each round, the second one
finds what the first has left. TorchFix and ruff take part where they are given. With `--every 10`, all commands are
given every tenth file, where it lies, so that what these files import is there for the one that follows imports. The
most that all processes of a lint hold together is measured in a run of its own, on Linux.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from startup import Seconds, measure, spread

FIRST, TWO, AGAIN = "first lint, `--jobs 1`", "first lint, `--jobs 2`", "second lint"
PARSE = "`ast.parse` of each file"
_PARSE = """
import ast, os, sys
for name in sys.argv[1:]:
    try:
        ast.parse(open(name, "rb").read())
    except SyntaxError:
        pass
"""
_BETWEEN_LOOKS = 0.2


def main() -> int:
    """Measure each folder, and print a table for each in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--every", nargs="+", type=int, default=[1], metavar="N", help="only every Nth file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-warm-up", action="store_true", help="count the first round, too")
    parser.add_argument("--torchfix", type=Path, help="a virtual environment that has it")
    parser.add_argument("--ruff", type=Path, help="its executable")
    options = parser.parse_args()
    for folder in options.folders:
        for every in options.every:
            print(_measured(folder.resolve(), every, options), end="\n\n", flush=True)
    return 0


def _measured(folder: Path, every: int, options: argparse.Namespace) -> str:
    files = sorted(path for path in folder.rglob("*.py") if path.is_file())[::every]
    with tempfile.TemporaryDirectory() as scratch:
        caches = Path(scratch) / "caches"
        commands = _commands([str(folder)] if every == 1 else list(map(str, files)), files, caches, options)
        seconds = measure(
            commands,
            options.rounds,
            Path(scratch),
            # So that each round begins as the very first one.
            before_round=lambda: shutil.rmtree(caches, ignore_errors=True),
            warm_up=not options.no_warm_up,
        )
        shutil.rmtree(caches, ignore_errors=True)
        together = {name: _held_together(commands[name]) for name in (FIRST, AGAIN, TWO)}
    return table(folder.name if every == 1 else f"{folder.name}, one file of {every}", files, seconds, together)


def _commands(paths: list[str], files: list[Path], caches: Path, options: argparse.Namespace) -> dict[str, list[str]]:
    commands = {
        FIRST: _lint(paths, caches / "one", 1),
        AGAIN: _lint(paths, caches / "one", 1),
        TWO: _lint(paths, caches / "two", 2),
        PARSE: [sys.executable, "-c", _PARSE, *map(str, files)],
    }
    if options.ruff:
        commands["`ruff check --no-cache`"] = [str(options.ruff), "check", "--no-cache", "--quiet", *paths]
    if options.torchfix:
        commands["`torchfix`"] = [str(options.torchfix / "bin" / "torchfix"), *paths]
    return commands


def _lint(paths: list[str], cache: Path, jobs: int) -> list[str]:
    program = str(Path(sys.executable).parent / "gpudoctor")
    return ["env", f"GPUDOCTOR_CACHE_DIR={cache}", program, "lint", "--quiet", f"--jobs={jobs}", *paths]


def _held_together(command: list[str]) -> int:
    """The most that a command and its children hold at once, in MiB: what they share is counted once."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        most = max(most, sum(map(_proportional_kib, _family(process.pid))))
        time.sleep(_BETWEEN_LOOKS)
    return most // 1024


def _family(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    # It has ended, or this is no Linux.
    except OSError:
        return
    for child in children:
        yield from _family(int(child))


def _proportional_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def table(name: str, files: list[Path], seconds: Seconds, together: dict[str, int]) -> str:
    """What was measured, in Markdown: medians, and how many times the processor time of the others the lints take."""
    lines = sum(path.read_bytes().count(b"\n") for path in files)
    rows = [
        f"{name}: {len(files):,} files, {lines:,} lines; rounds: {len(seconds[FIRST])}, {os.cpu_count()} CPUs "
        f"(load average {os.getloadavg()[0]:.0f})",
        "",
        "| command | median s | of the processor | a line, us | peak MiB | first lint takes so many times its "
        "processor time | second lint |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, times in seconds.items():
        ratios = [
            spread(one.processor / other.processor for one, other in zip(seconds[base], times, strict=True))
            for base in (FIRST, AGAIN)
        ]
        clock, processor = (
            statistics.median(getattr(took, field) for took in times) for field in ("clock", "processor")
        )
        memory = together.get(name) or max(took.memory for took in times)
        each = processor / lines * 1e6
        rows.append(f"| {name} | {clock:.2f} | {processor:.2f} | {each:.1f} | {memory} | {ratios[0]} | {ratios[1]} |")
    return "\n".join(rows)


if __name__ == "__main__":
    raise SystemExit(main())
