"""Lint of programs that nobody has written: no crash, no hang, no memory without end.

The same few cases each time, so that a failure is not a matter of luck. For more of them
`python tests/tools/fuzz_lint.py --seed 1 --count 20000`; for other people's files with their parts shuffled

    export GPUDOCTOR_FUZZ_SECONDS=1500 GPUDOCTOR_FUZZ_SEED=1 GPUDOCTOR_FUZZ_PATHS=/some/project:/another
    pytest tests/lint/test_fuzz.py

A case that fails is written to a file, and its name is told.
"""

import itertools
import os
import random
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpudoctor.lint import pipeline
from gpudoctor.lint.request import Request
from gpudoctor.registry import find_rules
from tests.support.mutations import mutated

pytestmark = pytest.mark.slow

CASES = 60
MADE_UP = 60
SECONDS = float(os.environ.get("GPUDOCTOR_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("GPUDOCTOR_FUZZ_SEED", "0"))
PATHS = os.environ.get("GPUDOCTOR_FUZZ_PATHS", "")
MOST_BYTES = 20_000
LONGEST = 15
"""Seconds of processor time."""
MIB = 1024
"""In the unit of the system's peak of memory."""


def people_write(repository: Path) -> list[Path]:
    """Files that mutations start from: ours, the standard library's, torch's, and those asked for."""
    torch = find_spec("torch")
    folders = [repository / "fixtures", Path(sysconfig.get_path("stdlib")), *map(Path, filter(None, PATHS.split(":")))]
    folders += [Path(torch.origin).parent / part for part in ("distributed", "nn", "utils/data")] if torch else []  # type: ignore[arg-type]
    chosen: list[Path] = []
    for index, folder in enumerate(folders):
        found = sorted(path for path in folder.rglob("*.py") if path.is_file() and path.stat().st_size < MOST_BYTES)
        # Of ours all; of others a sample that is the same each time.
        most = len(found) if index == 0 else 3000 if SECONDS else 100
        chosen += random.Random(index).sample(found, min(len(found), most))
    return chosen


def cases(paths: list[Path]) -> Iterator[tuple[str, str]]:
    """Texts with their names, always the same for one seed."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in paths]
    for number in itertools.count():
        rng = random.Random(f"{SEED} {number}")
        # Ours half of the time: they reach the rules.
        ours = [text for path, text in zip(paths, texts, strict=True) if "fixtures" in path.parts]
        one, other = rng.choice(rng.choice((ours, texts))), rng.choice(ours if rng.random() < 0.7 else texts)
        yield f"case_{SEED}_{number}.py", mutated(rng, one, other)


def wrong_with(name: str, text: str) -> str:
    """What lint does wrong with a text; empty where it does nothing wrong."""
    rules = find_rules().cards
    started, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        data = text.encode("utf-8", "surrogatepass")
        outcome = pipeline.lint(Request(("-",), rules=rules, known=rules, stdin=data, stdin_name=name))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    took = time.process_time() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    if outcome.failures:
        return str(outcome.failures[0])
    if took > LONGEST:
        return f"took {took:.0f} seconds"
    return f"took {grown / MIB:.0f} MiB" if grown > 500 * MIB else ""


def test_mutated_programs_do_lint_no_harm(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    failures: dict[str, str] = {}
    started, slow = time.monotonic(), []
    for number, (name, text) in enumerate(cases(people_write(repository))):
        if number >= CASES and time.monotonic() - started > SECONDS:
            break
        before = time.process_time()
        wrong = wrong_with(name, text)
        slow.append((time.process_time() - before, name))
        # One of each kind is enough to mend it; the last line says where it was raised.
        kind = wrong.split("\n")[-1].partition(" < ")[0]
        if wrong and kind not in failures:
            failures[kind] = f"{_kept(name, text)}: {wrong}"
            if SECONDS:
                with capsys.disabled():
                    print(f"\n{failures[kind]}", flush=True)
    if SECONDS:
        with capsys.disabled():
            print(f"\n{number} cases; slowest {sorted(slow, reverse=True)[:5]}")
    assert not failures, "\n".join(failures.values())


def test_made_up_programs_do_lint_no_harm(repository: Path) -> None:
    """By a grammar, from our own, and by calls of all that lint knows: in other processes, where nothing else is."""
    command = [sys.executable, "tests/tools/fuzz_lint.py", "--count", str(MADE_UP), "--again", "2", "--seed", str(SEED)]
    run = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{MADE_UP} programs" in run.stdout


def _kept(name: str, text: str) -> str:
    folder = Path(tempfile.gettempdir()) / "gpudoctor-fuzz"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    return str(folder / name)
