"""Fix copies of whole repositories, and say what came of it: `python tests/tools/fix_copies.py FOLDER... [--unsafe]`.

Each folder is copied to a temporary place, linted, fixed and linted again. A file that no longer parses and a finding
that was not there before are errors, and end the command with 1. The edits are printed as diffs, to be read.
"""

import argparse
import ast
import contextlib
import io
import json
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from gpudoctor import cli

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Fix a copy of each folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--unsafe", action="store_true", help="apply the unsafe fixes as well")
    parser.add_argument("--select", default="", help="only these rules")
    parser.add_argument("--quiet", action="store_true", help="print no diffs")
    options = parser.parse_args()
    failed = False
    fixed: Counter[str] = Counter()
    for folder in options.folders:
        with tempfile.TemporaryDirectory() as place:
            copy = Path(place).resolve() / folder.name
            shutil.copytree(folder, copy, symlinks=True)
            wrong, done = _fix(copy, options)
        fixed += done
        print(f"{folder.name}: {sum(done.values())} fixed", *(f"{code}={n}" for code, n in sorted(done.items())))
        for each in wrong:
            print(f"{folder.name}: WRONG: {each}")
        failed = failed or bool(wrong)
    print("all:", sum(fixed.values()), *(f"{code}={count}" for code, count in sorted(fixed.items())))
    return int(failed)


def _fix(copy: Path, options: argparse.Namespace) -> tuple[list[str], Counter[str]]:
    """What went wrong in a folder that is fixed in place, and how many findings of each rule are gone."""
    select = [f"--select={options.select}"] if options.select else []
    first = _findings(copy, [])
    # To fix what has no fix takes as long as linting, and large repositories take minutes.
    if not any(each["fix"] for each in first):
        return [], Counter()
    before, files = _counted(first), {path: path.read_bytes() for path in copy.rglob("*.py") if path.is_file()}
    wanted = ["--fix", *(["--unsafe-fixes"] if options.unsafe else []), *select]
    _lint(copy, wanted)
    wrong = []
    for path, data in files.items():
        if path.read_bytes() != data:
            try:
                ast.parse(path.read_bytes())
            except SyntaxError as error:
                wrong.append(f"{path.relative_to(copy)} does not parse: {error}")
            if not options.quiet:
                _print_diff(path, data, copy)
    after = _counted(_findings(copy, []))
    wrong += [f"new: {path} {code} x{count}" for (code, path), count in (after - before).items()]
    again = {path: path.read_bytes() for path in files}
    _lint(copy, wanted)
    wrong += [f"changed again: {path.relative_to(copy)}" for path, data in again.items() if path.read_bytes() != data]
    gone: Counter[str] = Counter()
    for (code, _), count in (before - after).items():
        gone[code] += count
    return wrong, gone


def _findings(folder: Path, options: list[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(_lint(folder, ["--output-format=json", *options]))["findings"]
    return found


def _counted(found: list[dict[str, Any]]) -> Counter[tuple[str, str]]:
    """Findings by rule and file."""
    # Advice may come to light behind a mistake that is gone.
    return Counter((each["code"], each["path"]) for each in found if each["severity"] in ("error", "warning"))


def _lint(folder: Path, options: list[str]) -> str:
    out = io.StringIO()
    here = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            cli.main(["lint", "--fail-on=never", "--no-config", *options, "."])
    finally:
        os.chdir(here)
    return out.getvalue()


def _print_diff(path: Path, data: bytes, copy: Path) -> None:
    old = path.with_suffix(".before")
    old.write_bytes(data)
    shown = path.relative_to(copy)
    command: list[str | Path] = [
        "diff",
        "-U3",
        "--label",
        f"{copy.name}/{shown}",
        "--label",
        f"{copy.name}/{shown}",
        old,
        path,
    ]
    print(subprocess.run(command, capture_output=True, check=False).stdout.decode("utf-8", "replace"))
    old.unlink()


if __name__ == "__main__":
    raise SystemExit(main())
