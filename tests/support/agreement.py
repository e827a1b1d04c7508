"""Programs that say what holds in them, as Python says it and as lint finds it on paper.

`claim(x)` says that `x` is true there. On paper less may be known: a claim may be open there, but it may not be false,
and each that Python comes by is come by.
"""

import ast
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.domain.value import NONE, Const, Values
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.interface.library_call import Call
from gpudoctor.lint.interp import expressions
from gpudoctor.lint.interp.launch_worlds import programs_of
from gpudoctor.lint.library.register import MODELS
from gpudoctor.lint.source.project import Project
from gpudoctor.ranks.loopback import free_port
from gpudoctor.record import dataclass
from tests.support import warm
from tests.support.ranks import rank_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed(Event):
    """The program came by a claim."""

    denied: bool
    """It is surely false on paper."""


def _claim(call: Call) -> Values:
    asked = [binding.value for binding in call.args[0].restrict(call.do.path).bindings]
    call.emit(Claimed, denied=bool(asked) and all(isinstance(each, Const) and not each.value for each in asked))
    return Values.of(NONE)


@contextmanager
def _claims_known() -> Iterator[None]:
    before = expressions.BUILTINS
    expressions.BUILTINS, MODELS.callables["builtins.claim"] = before | {"claim"}, _claim
    try:
        yield
    finally:
        expressions.BUILTINS = before
        del MODELS.callables["builtins.claim"]


def in_python(source: str) -> list[int]:
    """The lines of the claims that Python comes by, in its order; an AssertionError names one that is false."""
    lines: list[int] = []

    def claim(line: int, holds: object) -> None:
        assert holds, f"line {line} is not so"
        lines.append(line)

    exec(compile(_numbered(source), "claims", "exec"), {"claim": claim, "__name__": "__main__"})
    return lines


def on_ranks(path: Path, world_size: int = 2) -> set[int]:
    """The lines of the claims that any of so many ranks comes by, each in a process of its own, with gloo."""
    port = free_port()
    started = [
        warm.Process(
            [sys.executable, "-m", "tests.support.agreement", str(path)],
            env={**os.environ, **rank_environment(rank, world_size, port)},
        )
        for rank in range(world_size)
    ]
    found: set[int] = set()
    try:
        for process in started:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            found.update(json.loads(out))
    finally:
        for process in started:
            process.kill()
    return found


def _numbered(source: str) -> ast.Module:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "claim":
            node.args.insert(0, ast.copy_location(ast.Constant(node.lineno), node))
    return tree


def on_paper(path: Path, launch: str = "single") -> dict[int, bool]:
    """The lines of the claims that lint comes by, and whether each is surely false."""
    project = Project(str(path))
    entry = project.module_of(str(path))
    assert entry is not None, project.unreadable
    with _claims_known():
        program = next(iter(programs_of(entry, classify(entry, project), project, launch)))
        found: dict[int, bool] = {}
        for event in program.events(Claimed):
            found[event.location.line] = event.denied and found.get(event.location.line, True)
    return found


if __name__ == "__main__":
    print(json.dumps(in_python(Path(sys.argv[1]).read_text())))
