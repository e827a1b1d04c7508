"""What two states of gpudoctor find in the same folders, and where they differ.

    python tests/tools/compare_findings.py BASE FOLDER... [--to COMMIT] [--each] [--keep DIR]

Each FOLDER (with `--each`: each folder in it, for a folder of checkouts) is linted whole with all rules, once by the
code of the commit BASE, once by the working tree or the commit of `--to`. Printed are the findings that only one of the
two has, those that changed in severity, confidence or words, and what either could not read. `--keep` keeps the answers
of commits for the next call. Ends with 1 where something differs.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT = 900
"""Seconds of processor time for one folder."""

Json = dict[str, Any]


def main(argv: list[str]) -> int:
    """Lint with both, and print the differences folder by folder."""
    options = _options(argv)
    folders = [inner for name in options.folders for inner in (_inside(name) if options.each else [name])]
    with tempfile.TemporaryDirectory() as scratch:
        sides = [_answers(commit, folders, options, Path(scratch)) for commit in (options.base, options.to)]
    changed = 0
    for folder, before, after in zip(folders, *sides, strict=True):
        rows = list(_differences(before, after))
        changed += len(rows)
        print(*([f"== {folder}", *rows] if rows else []), sep="\n", end="\n" if rows else "")
    seconds = [sum(answer["seconds"] for answer in answers) for answers in sides]
    most = [max((answer["megabytes"] for answer in answers), default=0) for answers in sides]
    print(
        f"{len(folders)} folders, {changed} differences; {seconds[0]:.0f} s of processor time and at most {most[0]} MiB"
    )
    print(f"before, {seconds[1]:.0f} s and {most[1]} MiB after")
    return int(changed > 0)


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", metavar="BASE", help="the commit to compare with")
    parser.add_argument("folders", nargs="+", metavar="FOLDER", type=Path)
    parser.add_argument("--to", metavar="COMMIT", default="", help="a commit instead of the working tree")
    parser.add_argument("--each", action="store_true", help="lint each folder in FOLDER on its own")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep the answers of commits here")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="folders that are linted at a time")
    return parser.parse_args(argv)


def _inside(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir())


def _answers(commit: str, folders: list[Path], options: argparse.Namespace, scratch: Path) -> list[Json]:
    """What the code of a commit says of each folder, or that of the working tree where none is named."""
    code, kept = ROOT, None
    if commit:
        name = subprocess.check_output(["git", "rev-parse", commit], cwd=ROOT, text=True).strip()[:12]
        code = scratch / name
        code.mkdir(exist_ok=True)
        archive = subprocess.check_output(["git", "archive", commit], cwd=ROOT)
        subprocess.run(["tar", "-x", "-C", str(code)], input=archive, check=True)
        kept = options.keep / name if options.keep else None
    if kept:
        kept.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(lambda folder: _answer(code, folder, kept), folders))


def _answer(code: Path, folder: Path, kept: Path | None) -> Json:
    known = kept / f"{folder.resolve().name}.json" if kept else None
    if known and known.exists():
        return dict(json.loads(known.read_text()))
    command = [sys.executable, "-P", "-m", "gpudoctor", "lint", ".", "--select", "ALL", "--output-format", "json"]
    command += ["--no-cache", "--no-config", "--jobs", "1"]
    environment = os.environ | {"PYTHONPATH": f"{code}{os.pathsep}{code / 'rules'}"}
    with tempfile.TemporaryFile() as written:
        # By processor time, which other work on the machine does not disturb.
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=written, stderr=subprocess.DEVNULL, preexec_fn=_limit
        )
        _, _, used = os.wait4(process.pid, 0)
        written.seek(0)
        text = written.read()
    try:
        answer = dict(json.loads(text))
    except ValueError as problem:
        answer = {"findings": [], "errors": [{"path": "", "message": f"no answer: {problem}"}]}
    answer |= {"seconds": used.ru_utime + used.ru_stime, "megabytes": used.ru_maxrss // 1024}
    if known:
        known.write_text(json.dumps(answer))
    return answer


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))


def _differences(before: Json, after: Json) -> Iterator[str]:
    old, new = _findings(before), _findings(after)
    for key in sorted(old.keys() | new.keys()):
        one, other = old.get(key), new.get(key)
        if one is None or other is None:
            sign, found = ("+", other) if one is None else ("-", one)
            yield f"{sign} {_line(key, found)}"
        elif one != other:
            yield f"~ {_line(key, one)}\n  {_line(key, other)}"
    told = [{f"{error['path']}: {error['message']}" for error in side["errors"]} for side in (before, after)]
    yield from (f"- ! {text}" for text in sorted(told[0] - told[1]))
    yield from (f"+ ! {text}" for text in sorted(told[1] - told[0]))


Place = tuple[str, int, int, str]


def _findings(answer: Json) -> dict[Place, tuple[str, str, str]]:
    """What is told at each place: severity, confidence and words."""
    return {
        (found["path"], found["line"], found["column"], found["code"]): (
            found["severity"],
            found["confidence"],
            found["message"],
        )
        for found in answer["findings"]
    }


def _line(place: Place, told: tuple[str, str, str] | None) -> str:
    path, line, column, code = place
    return f"{path}:{line}:{column} {code} {' '.join(told or ())}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
