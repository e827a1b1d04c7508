"""Make the files of a new rule: its page and class, and five programs for its tests. All of them fail until written.

python tests/tools/new_rule.py data sampler-epoch-not-set [--code GPU321] [--severity warning]
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent

# Each family with the first of its codes and the last one that is spoken for by the plan of the product.
FAMILIES = {
    "wrap": (101, 121),
    "device": (201, 217),
    "data": (301, 320),
    "launch": (401, 469),
    "collective": (501, 515),
    "checkpoint": (601, 609),
    "gradient": (701, 713),
    "throughput": (801, 809),
    "frameworks": (901, 971),
}
SEVERITIES = ("error", "warning", "perf", "info")

RULE = '''"""SCAFFOLD: one sentence that names the offence.

## What goes wrong

SCAFFOLD: what happens when the program runs, with the exact error text of PyTorch where there is one.

## Fix

SCAFFOLD: what to write instead, and what that changes.

## Silent when

SCAFFOLD: the cases that look like this and are fine.

## Sources

SCAFFOLD: addresses or issues that show it, such as pytorch/pytorch#31771.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.rule import Findings, Program, Rule


class {cls}(Rule):
    code = "{code}"
    severity = Severity.{severity}
    since = "{since}"
    needs = ()  # SCAFFOLD: the events without which there is nothing to say, as (Wrap,)

    def in_code(self, program: Program) -> Findings:
        # SCAFFOLD: ask `program`, and for each mistake
        # yield self.found(at=event.location, message="what happens, on which rank", remedy="what to write instead")
        yield from ()
'''

# The page shows these two as one program, with the lines that differ.
BAD_PAGE = """print("SCAFFOLD: the shortest program that makes the mistake")  # {code}: a part of the message
"""

GOOD_PAGE = """print("SCAFFOLD: the same program without it")
"""

# These are free to leave to the prelude what they are not about.
BAD = '''"""SCAFFOLD: a whole program that makes the mistake, as somebody would write it."""

from prelude import finish, start

start()
print("the line of the mistake")  # {code}: a part of the message
finish()
'''

GOOD = '''"""SCAFFOLD: a whole program that comes close and is fine."""

from prelude import finish, start

start()
print("the line that looks like it")  # ok: {code} why it is fine
finish()
'''


def main(argv: list[str] | None = None) -> int:
    """Write the files and say what to do next."""
    options = _parser().parse_args(argv)
    code = options.code or f"GPU{next_code(options.family)}"
    problem = _problem(options.family, options.name, code)
    if problem:
        print(f"new_rule: {problem}", file=sys.stderr)
        return 2
    written = list(_write(options.family, options.name, code, options.severity))
    print(f"{code} {options.name}\n")
    print("\n".join(f"  {path.relative_to(ROOT)}" for path in written))
    print(f"\nWrite the programs first and watch them fail:\n  pytest -k {code}")
    return 0


def next_code(family: str) -> int:
    """The first code of a family that no rule has and that is not spoken for."""
    first, planned = FAMILIES[family]
    ceiling = first // 100 * 100 + 99 if first < 900 else 999
    taken = {int(code) for code in _codes()}
    for code in range(planned + 1, ceiling + 1):
        if code not in taken and not any(start <= code <= end for start, end in FAMILIES.values()):
            return code
    raise SystemExit(f"new_rule: the family {family} has no free code; give one with --code")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("name", help="the offence, in words with dashes: sampler-epoch-not-set")
    parser.add_argument("--code", help="a code of the plan, instead of the next free one")
    parser.add_argument("--severity", choices=SEVERITIES, default="warning")
    return parser


def _problem(family: str, name: str, code: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", name):
        return f"`{name}` is no name of an offence: small letters, two words or more, dashes between them"
    if not re.fullmatch(r"GPU\d{3}", code):
        return f"`{code}` is no code: GPU and three digits"
    if int(code[3:]) // 100 != FAMILIES[family][0] // 100:
        return f"{code} is no code of the family {family}"
    if code[3:] in _codes():
        return f"{code} is taken"
    taken = list((ROOT / "rules").rglob(f"{name.replace('-', '_')}.py"))
    return f"{taken[0].relative_to(ROOT)} exists" if taken else ""


def _codes() -> set[str]:
    """The digits of all codes in use."""
    declared = re.compile(r'^    code = "GPU(\d{3})"', re.MULTILINE)
    rules = (ROOT / "rules" / "gpudoctor_rules").glob("*/*.py")
    return {match for path in rules for match in declared.findall(path.read_text(encoding="utf-8"))}


def _write(family: str, name: str, code: str, severity: str) -> list[Path]:
    version = re.search(r'__version__ = "(\d+\.\d+)', (ROOT / "gpudoctor/__init__.py").read_text(encoding="utf-8"))
    package = ROOT / "rules" / "gpudoctor_rules" / family
    module = RULE.format(
        cls="".join(part.capitalize() for part in name.split("-")),
        code=code,
        severity=severity.upper(),
        since=version[1] if version else "0.1",
    )
    programs = ROOT / "fixtures" / "rules" / family / name.replace("-", "_")
    contents = {package / f"{name.replace('-', '_')}.py": module}
    contents |= {programs / "bad_page.py": BAD_PAGE.format(code=code), programs / "good_page.py": GOOD_PAGE}
    contents[programs / "bad_two.py"] = BAD.format(code=code)
    contents |= {programs / f"good_{which}.py": GOOD.format(code=code) for which in ("two", "three")}
    if not (package / "__init__.py").exists():
        contents[package / "__init__.py"] = f'"""Rules of the family {family}."""\n'
    for path, text in contents.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(contents)


if __name__ == "__main__":
    raise SystemExit(main())
