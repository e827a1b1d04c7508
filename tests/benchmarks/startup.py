"""How long one lint of one script takes, beside other programs that read it.

    python tests/benchmarks/startup.py [--rounds 15] [--torchfix /path/to/venv] [--script train.py]

All commands take turns, A B C A B C, so that a noisy moment of the machine hits all of them; a ratio is formed within
a round, and its smallest, middle and largest value over the rounds are shown: of the time on the clock, and of the
processor time of the command and all that it starts, which other work on the machine disturbs less. No test asserts a
time.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "fixtures" / "programs" / "one_script" / "train.py"
TORCHFIX = "torchfix==0.7.0"
BASE = "gpudoctor lint"


class Took(NamedTuple):
    """Seconds of one command in one round."""

    clock: float
    processor: float
    memory: int
    """The most that it held at once, in MiB."""


Seconds = dict[str, list[Took]]


def main() -> int:
    """Measure, and print one table in Markdown."""
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        torchfix = options.torchfix or _install_torchfix(Path(scratch) / "torchfix")
        commands = _commands(options.script, torchfix)
        seconds = measure(commands, options.rounds, Path(scratch))
    print(table(options.script, seconds, BASE))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--script", type=Path, default=SCRIPT)
    parser.add_argument("--torchfix", type=Path, help=f"a virtual environment that has {TORCHFIX}; made where left out")
    return parser


def _install_torchfix(folder: Path) -> Path:
    # An environment of its own: it asks for an older libcst than gpudoctor's tests use.
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", TORCHFIX], check=True)
    return folder


def _commands(script: Path, torchfix: Path) -> dict[str, list[str]]:
    """What is compared. All run on one interpreter version; the reader of the table sees these names."""
    parse = f"import ast; ast.parse(open({str(script)!r}, encoding='utf-8').read())"
    lint = str(Path(sys.executable).parent / "gpudoctor")
    return {
        BASE: [lint, "lint", "--no-cache", str(script)],
        TORCHFIX.replace("==", " "): [str(torchfix / "bin" / "torchfix"), str(script)],
        "python -c 'ast.parse(...)'": [sys.executable, "-c", parse],
        "python -c pass": [sys.executable, "-c", "pass"],
    }


def measure(
    commands: dict[str, list[str]],
    rounds: int,
    folder: Path,
    before_round: Callable[[], object] = lambda: None,
    warm_up: bool = True,
) -> Seconds:
    """What each command took in each round, after one that warms the disk and is not counted."""
    seconds: Seconds = {name: [] for name in commands}
    for number in range(0 if warm_up else 1, rounds + 1):
        before_round()
        for name, command in commands.items():
            took = _run(command, folder)
            if number:
                seconds[name].append(took)
    return seconds


def _run(command: list[str], folder: Path) -> Took:
    # Without PYTHONDONTWRITEBYTECODE: all start from compiled modules, as an installed program does.
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=plain, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode > 1:
            output.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{output.read().decode()}")
    return Took(elapsed, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1024)


def table(script: Path, seconds: Seconds, base: str) -> str:
    """What was measured, in Markdown: medians, and how many times the seconds of the others `base` takes."""
    lines = len(script.read_text(encoding="utf-8").splitlines())
    machine = f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.system()} {platform.machine()}"
    rows = [
        f"{script.name}, {lines} lines; {len(seconds[base])} rounds; {machine}",
        "",
        f"| command | median s | `{base}` takes so many times that: min, median, max | of processor time |",
        "|---|---|---|---|",
    ]
    for name, times in seconds.items():
        pairs = list(zip(seconds[base], times, strict=True))
        clock = spread(one.clock / other.clock for one, other in pairs) if name != base else "1"
        processor = spread(one.processor / other.processor for one, other in pairs) if name != base else "1"
        median = statistics.median(took.clock for took in times)
        rows.append(f"| `{name}` | {median:.3f} | {clock} | {processor} |")
    return "\n".join(rows)


def spread(ratios: Iterable[float]) -> str:
    """The smallest, middle and largest of the ratios."""
    ordered = sorted(ratios)
    return f"{ordered[0]:.2f}, {statistics.median(ordered):.2f}, {ordered[-1]:.2f}"


if __name__ == "__main__":
    raise SystemExit(main())
