"""Plant mistakes in programs that make none, and see whether lint finds each with the right rule in the right place.

    python tests/tools/plant_mistakes.py ROOT/./train.py [ROOT/./tools/train.py ...] [--only WORDS] [--each 1]

What stands before `/./` is the folder that lint works in; without it that is the program's own folder. The mistakes go
into a copy, one at a time: into the program itself and the files that it imports, but not into functions that this
program never calls, where they would be none. A program in which lint finds an
error or a warning as it is, is passed over, but for `--anyway`: then only what is found besides counts.
"""

import argparse
import ast
import itertools
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from gpudoctor.lint.discovery.classify import classify  # noqa: E402
from gpudoctor.lint.interp.launch_worlds import programs_of  # noqa: E402
from gpudoctor.lint.program import Program  # noqa: E402
from gpudoctor.lint.source.file import Sources  # noqa: E402
from gpudoctor.lint.source.project import Project  # noqa: E402
from tests.support.linting import Seen, lint  # noqa: E402
from tests.tools.editing import Code, Planted  # noqa: E402
from tests.tools.mistakes import OPERATORS, Operator  # noqa: E402
from tests.tools.reached import never_reached  # noqa: E402

SERIOUS = ("error", "warning", "perf")
MOST_FILES = 8
"""Files of a program that are edited, the program itself first: large projects import half of themselves."""


class Outcome(NamedTuple):
    """One planted mistake, and what lint has found that it does not find without it."""

    operator: Operator
    program: str
    path: str
    line: int
    found: bool
    new: tuple[str, ...]


def main(argv: list[str] | None = None) -> int:
    """Plant, lint, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", metavar="PROGRAM", nargs="+")
    parser.add_argument("--only", default="", help="only operators with these words in their name")
    parser.add_argument("--each", type=int, default=1, help="the most plants of an operator in one program")
    parser.add_argument("--anyway", action="store_true", help="take programs with findings of their own, too")
    options = parser.parse_args(argv)
    outcomes: list[Outcome] = []
    for program in options.programs:
        root, entry = split(program)
        found = list(planted_in(root, entry, options.only, options.each, options.anyway))
        outcomes += found
        for each in found:
            if not each.found:
                print(f"missed: {each.operator.name}: {root / each.path}:{each.line} {' '.join(each.new)}", flush=True)
    print(table(outcomes))
    return 0


def split(program: str) -> tuple[Path, Path]:
    """The folder that lint works in, and the program in it."""
    root, mark, entry = program.partition("/./")
    path = Path(program)
    return (Path(root), Path(entry)) if mark else (path.parent, Path(path.name))


def planted_in(root: Path, entry: Path, only: str = "", most: int = 1, anyway: bool = False) -> Iterator[Outcome]:
    """Each mistake that can be planted in a program, and what becomes of it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / root.resolve().name
        shutil.copytree(root, copy, ignore=_not_python, ignore_dangling_symlinks=True)
        before = _serious(copy, entry)
        if any(seen.severity != "perf" for seen in before):
            print(f"not healthy: {root / entry} {' '.join(sorted({seen.code for seen in before}))}", file=sys.stderr)
            if not anyway:
                return
        programs = _programs(copy, entry)
        files = _files(copy, entry, programs)
        several = any(program.world.several_processes for program in programs)
        # Read as a whole: who calls a function may stand in a file that is not edited.
        dead = never_reached({path: tree for path in files if (tree := _tree(copy / path)) is not None})
        # A file that is started itself holds another program, of which this one takes a helper.
        places = [path for path in files if path == str(entry) or b"__main__" not in (copy / path).read_bytes()]
        for operator in OPERATORS:
            if only in operator.name and (several or not operator.of_ranks):
                yield from _try(operator, copy, entry, places[:MOST_FILES], dead, before, most)


def _tree(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return None


def _try(
    operator: Operator,
    copy: Path,
    entry: Path,
    files: list[str],
    dead: dict[str, list[range]],
    before: list[Seen],
    most: int,
) -> Iterator[Outcome]:
    """Plant a mistake where it fits, at the most so often, and lint."""
    places = (
        (path, planted)
        for path in files
        for planted in _plants(operator, copy / path)
        if not any(planted.line in lines for lines in dead.get(path, ()))
    )
    for path, planted in itertools.islice(places, most):
        file = copy / path
        original = file.read_bytes()
        file.write_text(planted.text, encoding="utf-8")
        after = _serious(copy, entry)
        file.write_bytes(original)
        new = _besides(before, after)
        found = any(_is_it(operator, seen, path, planted) for seen in new)
        shown = tuple(f"{seen.code}@{seen.path}:{seen.line}" for seen in new)
        yield Outcome(operator, str(entry), path, planted.line, found, shown)


def _besides(before: list[Seen], after: list[Seen]) -> list[Seen]:
    """What is found now and was not before: lines move with an edit, so each message is counted."""
    known = Counter((seen.code, seen.path, seen.message) for seen in before)
    new = []
    for seen in after:
        known[seen.code, seen.path, seen.message] -= 1
        if known[seen.code, seen.path, seen.message] < 0:
            new.append(seen)
    return new


def _plants(operator: Operator, file: Path) -> Iterator[Planted]:
    try:
        code = Code(file.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    yield from operator.plant(code)


def _is_it(operator: Operator, seen: Seen, path: str, planted: Planted) -> bool:
    # What ends the program may stand in a function that is called there, as the step of the project's own optimizer:
    # then the finding names the place of the edit, too.
    named = [(seen.path, seen.line), *seen.related]
    here = operator.anywhere or any(at == path and line in planted.lines for at, line in named)
    return seen.code in operator.codes and here


def _programs(copy: Path, entry: Path) -> list[Program]:
    project = Project(str(copy / entry), Sources())
    module = project.module_of(str(copy / entry))
    return programs_of(module, classify(module, project), project) if module is not None else []


def _files(copy: Path, entry: Path, programs: list[Program]) -> list[str]:
    """The files that lint reads for a program, relative to its root: the program first, then those to plant in."""
    read = {Path(shown) for program in programs for shown in program.files}
    inside = [path for path in copy.rglob("*.py") if any(path.match(str(each)) for each in read)]
    others = sorted(str(path.relative_to(copy)) for path in inside if path != copy / entry)
    return [str(entry), *others]


def _serious(copy: Path, entry: Path) -> list[Seen]:
    return [seen for seen in lint(copy / entry, folder=copy) if seen.severity in SERIOUS]


def _not_python(folder: str, names: list[str]) -> set[str]:
    return {
        name for name in names if not name.endswith((".py", ".toml", ".cfg")) and not (Path(folder) / name).is_dir()
    }


def table(outcomes: list[Outcome]) -> str:
    """How many of each mistake were planted and found."""
    counts: dict[str, list[bool]] = defaultdict(list)
    for each in outcomes:
        counts[each.operator.name].append(each.found)
    rows = [f"{name:32} {len(found):7} {sum(found):6}" for name, found in counts.items()]
    every = [each.found for each in outcomes]
    share = f"   {sum(every) / len(every):.0%}" if every else ""
    return "\n".join([f"{'mistake':32} planted  found", *rows, f"{'all':32} {len(every):7} {sum(every):6}{share}"])


if __name__ == "__main__":
    raise SystemExit(main())
