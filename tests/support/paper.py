"""Small programs executed on paper, which say in comments what their names hold.

`reveal(x)  #: 1 | 2` in a program asserts that `x` may be 1 or 2 there, `reveal()` shows the condition of the path
instead. What an alternative depends on beyond the path stands behind it: `1 if args.big | 2 if not (args.big)`.
Visits that differ are joined by ` ; `, and `#: never` says that no path comes by. A line `# file: NAME` begins
another file of the program; what stands above the first one is `train.py`, the entry.
"""

import re
import textwrap
from pathlib import Path
from typing import TypeVar

from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.data import Sampler
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Instance, Library
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.rank import Rank, Size
from gpudoctor.lint.domain.value import NONE, Const, Text, Truth, Unknown, Value, Values
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.flow.valueset import Binding
from gpudoctor.lint.interface.contents import known_items, pairs
from gpudoctor.lint.interface.library_call import Call
from gpudoctor.lint.interp.launch_worlds import programs_of
from gpudoctor.lint.program import Program
from gpudoctor.lint.source.project import Project
from gpudoctor.record import dataclass

E = TypeVar("E", bound=Event)
ENTRY = "train.py"
_FILE = re.compile(r"^# file: (\S+)$", re.MULTILINE)
_EXPECTED = re.compile(r"\breveal\(.*\)\s*#: (.+)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Revealed(Event):
    """A program came by `reveal`, which showed this."""

    text: str


def reveal(call: Call) -> Values:
    """The model of `reveal`: it logs what it is given."""
    path = call.do.path
    if call.args:
        bindings = call.args[0].restrict(path).bindings
        text = " | ".join(_binding(call, binding) for binding in bindings) or "nothing"
    else:
        text = repr(path)
    call.emit(Revealed, text=text)
    return Values.of(NONE)


def _binding(call: Call, binding: Binding[Value]) -> str:
    when = binding.condition.difference(call.do.path)
    return described(call, binding.value) + (f" if {when!r}" if when else "")


def described(call: Call, value: Value) -> str:
    """A value in a few words, the same for all that rules cannot tell apart."""
    if isinstance(value, (Const, Library)):
        return repr(value)
    if isinstance(value, Truth):
        return repr(value.literal)
    if isinstance(value, (Rank, Size)):
        return value.kind.value + (" as text" if value.as_text else "")
    if isinstance(value, Unknown):
        return f"setting {value.label}" if value.config else "unknown"
    if isinstance(value, Wrapper):
        return f"{value.kind.value}({described(call, value.inner)})"
    if isinstance(value, Module):
        return value.cls.label if isinstance(value.cls, Class) else value.made_by.rpartition(".")[2]
    if isinstance(value, Instance):
        return f"{described(call, value.cls)}()"
    if isinstance(value, Sampler):
        return value.made_by.rpartition(".")[2]
    if isinstance(value, Device):
        return f"{value.type}:{described(call, value.index)}" if value.index is not None else value.type
    if isinstance(value, (Function, Class)):
        return value.label
    if isinstance(value, BoundMethod):
        return f"{described(call, value.receiver)}.{value.name}"
    return _container(call, value)


def _container(call: Call, value: Value) -> str:
    if isinstance(value, Text):
        return " + ".join(described(call, part) for part in value.parts)
    if isinstance(value, DictOf):
        entries = pairs(call.do, value)
        shown = [f"{_alternatives(call, key)}: {_alternatives(call, item)}" for key, item in entries or ()]
        return "{" + ", ".join(shown) + "}"
    if isinstance(value, (TupleOf, ListOf)):
        items = known_items(call.do, value)
        shown = ", ".join(_alternatives(call, item) for item in items) if items is not None else "..."
        return f"({shown})" if isinstance(value, TupleOf) else f"[{shown}]"
    return type(value).__name__


def _alternatives(call: Call, values: Values) -> str:
    return " | ".join(described(call, value) for value in values)


@dataclass(frozen=True)
class Paper:
    """A program that was executed in one world or several."""

    programs: tuple[Program, ...]

    @property
    def program(self) -> Program:
        """The execution, where there is just one."""
        assert len(self.programs) == 1, [program.world for program in self.programs]
        return self.programs[0]

    def events(self, *kinds: type[E]) -> list[E]:
        """The events of these types."""
        return list(self.program.events(*kinds))

    def event(self, kind: type[E]) -> E:
        """The event of this type, of which there is one."""
        (found,) = self.events(kind)
        return found


def execute(folder: Path, source: str, launch: str) -> Paper:
    """Write the files of a program, execute it from a working directory in `folder`, and compare what it reveals."""
    texts = _split(textwrap.dedent(source))
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    project = Project(str(folder / ENTRY))
    entry = project.module_of(str(folder / ENTRY))
    assert entry is not None, project.unreadable
    paper = Paper(tuple(programs_of(entry, classify(entry, project), project, launch)))
    assert paper.programs, "no world to run it in"
    for program in paper.programs:
        wrong = _differences(_revealed(program), _expected(texts))
        assert not wrong, "\n".join((f"in the world {program.world.value}:", *wrong))
    return paper


def _split(source: str) -> dict[str, str]:
    first, *rest = _FILE.split(source)
    texts = dict(zip(rest[::2], rest[1::2], strict=True))
    return {ENTRY: first, **texts} if first.strip() or not texts else texts


def _expected(texts: dict[str, str]) -> dict[str, str]:
    found = {}
    for name, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            match = _EXPECTED.search(line)
            assert match or "reveal(" not in line, f"{name}:{number} says nothing about what it reveals"
            if match and match[1] != "never":
                found[f"{name}:{number}"] = match[1]
    return found


def _differences(revealed: dict[str, str], expected: dict[str, str]) -> list[str]:
    return [
        f"{place} shows {revealed.get(place, 'never')}, expected {expected.get(place, 'never')}"
        for place in {**expected, **revealed}
        if revealed.get(place) != expected.get(place)
    ]


def _revealed(program: Program) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for event in program.events(Revealed):
        shown = found.setdefault(f"{event.location.path}:{event.location.line}", [])
        if event.text not in shown:
            shown.append(event.text)
    return {place: " ; ".join(texts) for place, texts in found.items()}
