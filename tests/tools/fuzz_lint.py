"""Lint of programs that nobody has written: it never breaks, and takes neither long nor much memory.

    python tests/tools/fuzz_lint.py --seed 1 --count 20000 --minutes 60

A third of the programs follow a grammar, a third are fixtures with their tokens, lines and trees shuffled, a third call
the names of libraries that lint knows with what nobody would give them, and each 20th repeats and nests what would grow
with each round. Two processes lint them, with other hash seeds: each N-th of `--again N` is linted by both, in another
order, and what they print must be the same. A program fails where lint ends with anything but 0 or 1, prints what is no
JSON, takes more than 15 s of processor time or 500 MB, or says something else the second time. Of each kind of failure
the first is told: `--only NUMBER` lints that program again, `--show NUMBER` prints it. Ends with 1 where one failed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.grammar import calling, grown, inflated, known_names  # noqa: E402
from tests.support.mutations import mutated  # noqa: E402

SECONDS, MEGABYTES = 15.0, 500
_ROOM = 4 * 1024**3
"""Bytes of addresses that a process may have: what goes beyond fails there, and not the machine."""
_MOST_BYTES = 20_000
_LOOK_EVERY = 200
_TELL_EVERY = 1_000

Row = dict[str, Any]


def programs(seed: int) -> Programs:
    """All programs of a seed, by their numbers."""
    return Programs(seed)


class Programs:
    """The program of each number, the same for one seed."""

    kinds = ("grammar", "mutated", "calls", "inflated")

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._names = known_names()
        found = sorted((ROOT / "fixtures").rglob("*.py"))
        self._ours = [path.read_text("utf-8", "replace") for path in found if path.stat().st_size < _MOST_BYTES]

    def kind(self, number: int) -> str:
        """How the program is made."""
        return "inflated" if number % 20 == 0 else self.kinds[number % 3]

    def text(self, number: int) -> str:
        """The program itself."""
        rng = random.Random(f"{self._seed} {number}")
        if self.kind(number) == "grammar":
            return grown(rng)
        if self.kind(number) == "calls":
            return calling(rng, self._names)
        if self.kind(number) == "inflated":
            return inflated(rng)
        # Also what the grammar makes is shuffled: half of such programs do not parse any more.
        one = rng.choice(self._ours) if rng.random() < 0.8 else grown(rng)
        return mutated(rng, one, rng.choice(self._ours))


# --- the process that lints -----------------------------------------------------------------------------------------


def work() -> None:
    """Lint the programs whose numbers come on standard input, a line each, and answer with a line of JSON each."""
    resource.setrlimit(resource.RLIMIT_AS, (_ROOM, _ROOM))
    given = json.loads(sys.stdin.readline())
    found, answers = Programs(given["seed"]), os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("pyproject.toml").touch()
        for line in sys.stdin:
            row = {"number": int(line), "kind": found.kind(int(line)), **linted(found.text(int(line)))}
            print(json.dumps(row), file=answers, flush=True)


def linted(text: str) -> Row:
    """What lint does with a program: how it ends, what it takes, and a digest of what it says."""
    from gpudoctor.cli import main

    Path("train.py").write_bytes(text.encode("utf-8", "surrogatepass"))
    _forget_peak()
    before, started, said, told = _megabytes("VmRSS"), time.process_time(), io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(told):
        code = main(["lint", "--no-cache", "--jobs", "1", "--output-format", "json", "train.py"])
    took, grown = time.process_time() - started, _megabytes("VmHWM") - before
    row = {"code": code, "seconds": round(took, 2), "megabytes": round(grown), "wrong": ""}
    row["said"] = hashlib.sha1(f"{said.getvalue()}\0{told.getvalue()}".encode("utf-8", "replace")).hexdigest()
    row["findings"], row["wrong"] = _judged(code, said.getvalue(), told.getvalue(), took, grown)
    row["partly"] = " ".join(line for line in told.getvalue().split("\n") if "not followed to its end" in line)[:200]
    return row


def _judged(code: int, said: str, told: str, took: float, grown: float) -> tuple[int, str]:
    """How much was found, and what was wrong."""
    if code not in (0, 1):
        lines = [line.strip() for line in told.split("\n") if line.strip().startswith(("unexpected", "at "))]
        return 0, f"ends with {code}: {' '.join(lines)[:300]}"
    try:
        findings = len(json.loads(said)["findings"])
    except (ValueError, KeyError) as error:
        return 0, f"prints what is no JSON: {type(error).__name__}"
    if took > SECONDS:
        return findings, f"takes more than {SECONDS:.0f} s"
    return findings, f"takes more than {MEGABYTES} MB" if grown > MEGABYTES else ""


def _forget_peak() -> None:
    # Linux alone can; elsewhere the peak is that of all programs so far.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _megabytes(what: str) -> float:
    try:
        line = next(line for line in Path("/proc/self/status").read_text().split("\n") if line.startswith(what))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return int(line.split()[1]) / 1024


# --- the process that asks ------------------------------------------------------------------------------------------


class Worker:
    """A process that lints, started anew where it dies."""

    def __init__(self, seed: int, hash_seed: str) -> None:
        self._seed, self._hash_seed = seed, hash_seed
        self._start()

    def _start(self) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "rules")])
        environment = {**os.environ, "PYTHONHASHSEED": self._hash_seed, "PYTHONPATH": path}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--work"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment, cwd=ROOT,
        )  # fmt: skip
        self._send(json.dumps({"seed": self._seed}))

    def _send(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def ask(self, number: int) -> None:
        """Let it lint a program."""
        self._send(str(number))

    def answer(self, number: int) -> Row:
        """What it answers."""
        line = self._process.stdout.readline()
        if line:
            return dict(json.loads(line))
        code = self._process.wait()
        self._start()
        return {"number": number, "kind": "", "code": code, "seconds": 0, "megabytes": 0, "findings": 0, "partly": "",
                "said": "", "wrong": f"the process ends with {code}"}  # fmt: skip

    def close(self) -> None:
        """End it."""
        self._process.stdin.close()
        self._process.wait()


def fuzz(seed: int, numbers: Sequence[int], minutes: float, again: int = 5) -> Iterator[Row]:
    """Lint programs, each `again`-th in both processes, and yield what came of each."""
    first, second = Worker(seed, "1"), Worker(seed, "2")
    deadline = time.monotonic() + minutes * 60
    try:
        for start in range(0, len(numbers), _LOOK_EVERY):
            part = numbers[start : start + _LOOK_EVERY]
            twice = set(part[::again])
            yield from _compared(first, second, part, twice)
            if time.monotonic() > deadline:
                return
    finally:
        first.close()
        second.close()


def _compared(first: Worker, second: Worker, part: Sequence[int], twice: set[int]) -> Iterator[Row]:
    """A part of the programs, half of them in each process; those of `twice` in both, and there in another order."""
    queues = [[], []]  # type: list[list[int]]
    for index, number in enumerate(part):
        queues[index % 2].append(number)
        if number in twice:
            queues[1 - index % 2].insert(0, number)
    seen: dict[int, Row] = {}
    position = [0, 0]
    workers = (first, second)
    for worker, queue in zip(workers, queues, strict=True):
        if queue:
            worker.ask(queue[0])
    while any(at < len(queue) for at, queue in zip(position, queues, strict=True)):
        for index, (worker, queue) in enumerate(zip(workers, queues, strict=True)):
            at = position[index]
            if at >= len(queue):
                continue
            row = worker.answer(queue[at])
            position[index] += 1
            if at + 1 < len(queue):
                worker.ask(queue[at + 1])
            other = seen.get(queue[at])
            if other is None:
                seen[queue[at]] = row
            elif other["said"] != row["said"] and not other["wrong"] and not row["wrong"]:
                other["wrong"] = "says something else the second time"
    yield from seen.values()


def main(argv: Sequence[str] | None = None) -> int:
    """Lint programs, and print a table of what came of them."""
    options = _options(argv)
    if options.work:
        work()
        return 0
    if options.show is not None:
        sys.stdout.buffer.write(Programs(options.seed).text(options.show).encode("utf-8", "surrogatepass"))
        return 0
    numbers = [options.only] if options.only is not None else list(range(options.start, options.start + options.count))
    rows, told = [], set[str]()
    for row in fuzz(options.seed, numbers, options.minutes, options.again):
        rows.append(row)
        # A long run may be ended before its table is printed.
        if len(rows) % _TELL_EVERY == 0:
            print(
                f"{len(rows)} programs, {sum(bool(each['wrong']) for each in rows)} wrong", file=sys.stderr, flush=True
            )
        # The last call names the place; where it was called from may be one of a hundred.
        kind = row["wrong"].partition(" < ")[0]
        if kind and kind not in told:
            told.add(kind)
            print(f"seed {options.seed} number {row['number']}: {row['wrong']}", flush=True)
    print(table(options.seed, rows))
    return int(any(row["wrong"] for row in rows))


def table(seed: int, rows: Sequence[Row]) -> str:
    """What came of all programs, in Markdown."""
    lines = [
        f"seed {seed}, {len(rows)} programs",
        "",
        "| programs | number | exit 0 | exit 1 | exit 3 | other wrong | cut short | most s | median s | most MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for kind in (*Programs.kinds, ""):
        some = [row for row in rows if row["kind"] == kind or not kind]
        if some:
            seconds = sorted(row["seconds"] for row in some)
            codes = [row["code"] for row in some]
            wrong = sum(bool(row["wrong"]) and row["code"] != 3 for row in some)
            lines.append(
                f"| {kind or 'all'} | {len(some)} | {codes.count(0)} | {codes.count(1)} | {codes.count(3)} "
                f"| {wrong} | {sum(bool(row['partly']) for row in some)} "
                f"| {seconds[-1]:.2f} | {seconds[len(seconds) // 2]:.2f} | {max(row['megabytes'] for row in some)} |"
            )
    for what in ("seconds", "megabytes"):
        most = sorted(rows, key=lambda row: -row[what])[:3]
        lines.append(f"most {what}: " + ", ".join(f"{row[what]} (number {row['number']})" for row in most))
    return "\n".join(lines)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1_000, metavar="N", help="programs")
    parser.add_argument("--start", type=int, default=0, metavar="NUMBER", help="the first of them")
    parser.add_argument("--minutes", type=float, default=30.0, help="no more begin after this long")
    parser.add_argument("--again", type=int, default=5, metavar="N", help="lint each N-th a second time")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="lint one program")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="print one program")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
