"""The index of a pack: the cards of its rules, so that start-up imports none of their files.

A wheel has it from its build (`hatch_build.py`), and what it says is not asked again. For a checkout, and for a pack
that ships none, it is kept beside the bytecode, and like it: a file whose size or time of change is another one is read
anew. Nothing of it is in git, so no merge can make it wrong.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpudoctor import __version__
from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.record import fields
from gpudoctor.rule import RuleCard

if TYPE_CHECKING:
    from types import ModuleType
    from typing import TypeAlias

    Stamp: TypeAlias = tuple[int, int]
    """The size of a file, and when it was changed."""
    Entry: TypeAlias = tuple[Stamp, RuleCard]

SHIPPED = "cards.index"
"""The file of a pack that was built with it."""
_KEPT = os.path.join("__pycache__", SHIPPED)
# Not the newest: a wheel is for all versions of Python.
_MARSHAL_VERSION = 2

_FIELDS = tuple(each.name for each in fields(RuleCard))
_SEVERITY, _SAFETY = _FIELDS.index("severity"), _FIELDS.index("fix_safety")
# To call an enumeration for each takes longer than all the rest.
_KINDS: dict[str | None, Any] = {None: None, **{each.value: each for each in (*Severity, *Safety)}}
_HEAD = (__version__, _FIELDS)
"""What an index must have been written by to be understood."""


def stamp_of(stat: os.stat_result) -> Stamp:
    """What tells that a file has changed, without reading it."""
    return stat.st_size, stat.st_mtime_ns


def read_shipped(package: ModuleType) -> list[RuleCard]:
    """The cards of the index that a pack was built with; none where it has no such index."""
    try:
        # Of an archive no file can be opened.
        data = package.__loader__.get_data(os.path.join(package.__path__[0], SHIPPED))  # type: ignore[union-attr]
    except (OSError, AttributeError):
        return []
    return [card for _, card in _read(data)]


def read_kept(folder: str) -> dict[str, Entry]:
    """What is known of the rule files of a folder, by their modules."""
    try:
        with open(os.path.join(folder, _KEPT), "rb") as file:
            data = file.read()
    except OSError:
        return {}
    return {card.module: (stamp, card) for stamp, card in _read(data)}


def keep(folder: str, entries: Mapping[str, Entry]) -> None:
    """Keep this for the next start, where the folder can be written to."""
    # Imported late: mostly all of it is known.
    from gpudoctor.drafts import replace_file

    try:
        os.makedirs(os.path.join(folder, "__pycache__"), exist_ok=True)
        replace_file(os.path.join(folder, _KEPT), written(entries.values()))
    except OSError:
        return


def written(entries: Iterable[Entry]) -> bytes:
    """The bytes of an index."""
    return marshal.dumps((_HEAD, [(stamp, _plain(card)) for stamp, card in entries]), _MARSHAL_VERSION)


def _read(data: bytes) -> list[Entry]:
    try:
        head, entries = marshal.loads(data)
        if head != _HEAD:
            return []
        for _, plain in entries:
            plain[_SEVERITY] = _KINDS[plain[_SEVERITY]]
            plain[_SAFETY] = _KINDS[plain[_SAFETY]]
        return [(stamp, RuleCard(*plain)) for stamp, plain in entries]
    # Cut short, or of another program.
    except (ValueError, TypeError, EOFError, KeyError):
        return []


def _plain(card: RuleCard) -> list[Any]:
    values = (getattr(card, name) for name in _FIELDS)
    return [value.value if isinstance(value, (Severity, Safety)) else value for value in values]
