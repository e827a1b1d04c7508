"""What a hundred more rules cost a lint of one script.

    python tests/benchmarks/many_rules.py [--rounds 15] [--more 100]

Two copies of the packages are compared: one as it is, one with copies of the real rules under other codes and names.
Their index is made anew, as for any rule.
"""

import argparse
import itertools
import os
import shutil
import sys
import tempfile
from pathlib import Path

from startup import ROOT, SCRIPT, measure, table


def main() -> int:
    """Measure, and print one table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--more", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        few, many = (_copy(Path(scratch) / name) for name in ("few", "many"))
        base = f"with {_multiply_rules(many, options.more)} rules"
        commands = {base: _lint_in(many), f"with {len(_rule_files(few))} rules": _lint_in(few)}
        print(table(SCRIPT, measure(commands, options.rounds, Path(scratch)), base))
    return 0


def _copy(folder: Path) -> Path:
    for part in ("gpudoctor", "rules", "tests/tools"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _rule_files(folder: Path) -> list[Path]:
    return sorted((folder / "rules" / "gpudoctor_rules").glob("*/[!_]*.py"))


def _multiply_rules(folder: Path, more: int) -> int:
    """Add so many copies of real rules; the number of rules that there are then."""
    files = _rule_files(folder)
    sources = {path: path.read_text(encoding="utf-8") for path in files}
    free = (f"GPU{number}" for number in range(999, 0, -1) if f'"GPU{number:03}"' not in "".join(sources.values()))
    for number, (path, code) in enumerate(zip(itertools.cycle(files), itertools.islice(free, more), strict=False)):
        name = path.stem.replace("_", "-")
        lines = [
            f'    code = "{code}"\n'
            if line.startswith("    code = ")
            else line.replace(f'"{name}"', f'"{name}-{number}"')
            for line in sources[path].splitlines(keepends=True)
        ]
        path.with_name(f"{path.stem}_{number}.py").write_text("".join(lines), encoding="utf-8")
    return len(_rule_files(folder))


def _lint_in(folder: Path) -> list[str]:
    path = os.pathsep.join((str(folder), str(folder / "rules")))
    return ["env", f"PYTHONPATH={path}", sys.executable, "-m", "gpudoctor", "lint", "--no-cache", str(SCRIPT)]


if __name__ == "__main__":
    raise SystemExit(main())
