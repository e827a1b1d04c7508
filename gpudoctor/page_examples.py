"""The examples on the pages of the rules: the programs `bad_page.py` and `good_page.py` among the fixtures of a rule,
or scripts that start programs.

They are written once, and tested as all fixtures are. A checkout reads them where they lie; a wheel has them in one
file from its build (`hatch_build.py`). A pack of somebody else has them in its pages, under `Bad` and `Good`.
"""

from __future__ import annotations

import json
import os
import re
from types import ModuleType

SHIPPED = "examples.json"
"""The file of a pack that was built with it: both programs of each rule, by the rule's family and name."""
_KINDS = ("bad", "good")
# A program shows its mistake, and a fixture says which one the tests have to find there.
_MARKS = re.compile(r"(?:[ \t]*#[ \t]*(?:ok:[ \t]*GPU\d{3}\b|GPU\d{3}:)[^#\n]*)+$", re.MULTILINE)


def with_examples(page: str, package: ModuleType, module: str) -> str:
    """The page of a rule with its examples before the remedy; as it is where it has them, or there are none."""
    before, heading, after = page.partition("## Fix\n")
    examples = _examples(package, _key(module)) if heading and "## Bad\n" not in before else None
    if examples is None:
        return page
    bad, good = map(_indented, examples)
    return f"{before}## Bad\n\n{bad}\n\n## Good\n\n{good}\n\n{heading}{after}"


def table_of(package: ModuleType, modules: list[str]) -> bytes:
    """What `SHIPPED` holds for the rules of a pack, from the fixtures beside it."""
    table = {_key(module): _from_fixtures(package, _key(module)) for module in modules}
    return json.dumps({key: pair for key, pair in table.items() if pair}, ensure_ascii=False).encode()


def _key(module: str) -> str:
    """The place of a rule in its pack, and of its fixtures: `data/shuffle_with_sampler`."""
    return "/".join(module.split(".")[1:])


def _examples(package: ModuleType, key: str) -> tuple[str, str] | None:
    try:
        # Of an archive no file can be opened.
        data = package.__loader__.get_data(os.path.join(package.__path__[0], SHIPPED))  # type: ignore[union-attr]
    except (OSError, AttributeError):
        return _from_fixtures(package, key)
    return json.loads(data).get(key)  # type: ignore[no-any-return]


def _from_fixtures(package: ModuleType, key: str) -> tuple[str, str] | None:
    """Both programs of a checkout, without the marks of the tests."""
    folder = os.path.join(package.__path__[0], "..", "..", "fixtures", "rules", *key.split("/"))
    try:
        # A program, or what starts one.
        [ending] = {os.path.splitext(name)[1] for name in os.listdir(folder) if name.startswith("bad_page.")}
        bad, good = (_read(os.path.join(folder, f"{kind}_page{ending}")) for kind in _KINDS)
    except (OSError, ValueError):
        return None
    return bad, good


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return _MARKS.sub("", file.read()).strip()


def _indented(program: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in program.split("\n"))
