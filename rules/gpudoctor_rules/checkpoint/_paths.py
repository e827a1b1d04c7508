"""Paths that programs write to: are they the same on all ranks, and how would a reader call them?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.value import Const, Text, Unknown, Value, Values, single_of, text_of
from gpudoctor.lint.events.process import Spawn
from gpudoctor.lint.flow.condition import Divergence

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.events.files import ChangeFolder, Load, Save
    from gpudoctor.lint.program import Program

_TOLD_APART = Divergence.RANK | Divergence.LOCAL | Divergence.UNREAD


def one_path(paths: Values | None) -> bool:
    """All ranks surely have the same path."""
    return paths is not None and paths.all(_agreed)


def _agreed(value: Value) -> bool:
    # One part that differs is enough to keep the files of the ranks apart.
    if isinstance(value, Text):
        return all(map(_agreed, value.parts))
    if isinstance(value, Const):
        # A path of None writes nothing, or to a place that the callee chooses.
        return value.value is not None
    # A path from unread code may hold the rank or the time: then files may differ.
    return isinstance(value, Unknown) and not value.divergence & _TOLD_APART


def shown(event: Save | Load | ChangeFolder, otherwise: str = "the same path") -> str:
    """The path for a message: the text where it is known, else as the program writes it."""
    only, spelled = single_of(event.path), event.spelled
    if (text := text_of(only)) is not None:
        # `os.makedirs("")` names nothing.
        return f"`{text}`" if text.strip() else otherwise
    label = only.label if isinstance(only, Unknown) else ""
    # Behind the name of a variable stands a text that says more: `settings.yaml`, `args.out`.
    plain = not spelled or all(part.isidentifier() for part in spelled.split("."))
    # A file may have one name in several folders.
    names = {_file_name(each) for each in event.path or ()}
    name = ((names.pop() if len(names) == 1 else "") or label or spelled) if plain else spelled
    return f"`{name}`" if name else otherwise


def _file_name(path: Value | None) -> str:
    """The name at the end of a path of which that much is known."""
    last = path.parts[-1] if isinstance(path, Text) else None
    text = text_of(last) or ""
    name = text.rpartition("/")[2]
    # Behind a name that is not known stands the end of it: `f"{name}_best.pt"`.
    whole = name != text or name[:1].isalnum()
    return name if whole and "." in name.strip(".") and not set(name) & set("{}%") else ""


def importing(program: Program, event: Event) -> Spawn | None:
    """What starts processes each of which does this again when it imports the program; None where none does."""
    told_apart = event.condition.divergence & (Divergence.RANK | Divergence.UNREAD)
    # New processes know `__main__.py` and do not import it again, and nothing imports a notebook.
    imported = event.context.on_import and not program.entry.endswith(("__main__.py", ".ipynb"))
    if not program.whole or not program.spawned or not imported or told_apart:
        return None
    return next((spawn for spawn in program.events(Spawn) if spawn.imports and spawn.guarded), None)
