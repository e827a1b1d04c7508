"""Results that are kept from one run to the next, one file an entry.

A result is found again under all that decides it besides files: gpudoctor's own code, the Python that parses, the
rules, the way of launching, the working directory. It is used as long as every question to the file system that was
asked for it has the same answer: the contents of each file that was read, and which files are not there. What cannot
be read, is damaged, or comes from elsewhere counts as not there, and what cannot be written is not kept.

The folder is one of the user's, not of the project: nobody can hand over a project together with its results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from gpudoctor import __version__
from gpudoctor.coverage import Cause, Coverage, Ending, Followed, Silence
from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Related, Safety, SeenIn, Severity
from gpudoctor.lint.events.program_facts import EngineUser, ProgramFacts
from gpudoctor.lint.runtime.entry_result import EntryResult
from gpudoctor.lint.runtime.private_folder import OwnFolder
from gpudoctor.lint.source.file import Unreadable, shown_path
from gpudoctor.lint.source.file_queries import CONTENT, KeptAnswers, answer_to, digest_of
from gpudoctor.lint.source.file_traits import FileTraits, Role
from gpudoctor.lint.source.layout import is_package
from gpudoctor.manifest.compiled import stamp_of_stubs
from gpudoctor.record import fields, replace

if TYPE_CHECKING:
    from enum import Enum

    from gpudoctor.lint.request import Request
    from gpudoctor.lint.source.file import Sources

MAX_BYTES = 64 * 1024 * 1024
"""Of all results together. Beyond it the oldest ones go."""
MAX_ENTRY_BYTES = 2 * 1024 * 1024
_KEPT_OF_FULL = 0.75
_GLANCES = "glances at "
_DAMAGED = (OSError, ValueError, KeyError, TypeError, RecursionError)
"""What comes of a file that is not there, was cut off, or was written by nobody knows whom."""

Examine = Callable[[Sequence[str]], Iterator[EntryResult]]
"""What comes of entries, one after the other."""
ReadTraits = Callable[[Sequence[str]], "list[FileTraits | Unreadable]"]
"""What is seen of files."""


class Cache:
    """The results of earlier runs with the same settings."""

    def __init__(self, request: Request, sources: Sources) -> None:
        self._sources = sources
        self._settings = _settings_of(request) if request.cache else ""
        self._folder = OwnFolder(request.cache) if request.cache else None
        self._answers: KeptAnswers = {}
        self._contents: dict[str, str] = {}
        self._asked_for = repr(request.paths)
        self._started = request.started
        self._wrote = False
        self._memory = request.memory
        self._meant = request.rules, request.launch, request.fixes

    def results(self, paths: Sequence[str], examine: Examine) -> Iterator[EntryResult]:
        """What comes of entries, in order: what an earlier run made of one, where it would come out the same now; else
        what comes of examining it, which is kept for the next run."""
        known = {path: found for path in paths if (found := self._known(path)) is not None}
        new = [path for path in paths if path not in known]
        fresh = examine(new) if new else iter(())
        for path in paths:
            result = known.get(path)
            if result is None:
                result = next(fresh)
                # A bug of ours is not kept.
                if not result.failures:
                    self._keep(path, result)
            yield result

    def glances(self, digests: Mapping[str, str], look: ReadTraits) -> list[FileTraits | Unreadable]:
        """What is seen of files: what an earlier run saw of one with the same text, without parsing it; else what a
        look at it shows, which is kept.

        Digests are of files that were just read, so that they need not be read again to compare them; empty where a
        file could not be.
        """
        if self._memory is None and not self._folder:
            return look([*digests])
        self._contents = {path: digest for path, digest in digests.items() if digest}
        keys = {path: _text_key(path, digest) for path, digest in self._contents.items()}
        known = self._known_glances(keys)
        new = [path for path in digests if path not in known]
        looks = {**known, **dict(zip(new, look(new), strict=True))}
        if new:
            self._keep_glances(keys, looks)
        return [looks[path] for path in digests]

    def _known_glances(self, keys: Mapping[str, str]) -> dict[str, FileTraits]:
        if self._memory is not None:
            looks = self._memory.looks
            return {path: seen for path, key in keys.items() if (seen := looks.get((path, key))) is not None}
        kept = self._read_glances()
        # Another file with the same text may have been the one that was looked at.
        return {
            path: replace(kept[key], path=path, shown=shown_path(path)) for path, key in keys.items() if key in kept
        }

    def _keep_glances(self, keys: Mapping[str, str], looks: Mapping[str, FileTraits | Unreadable]) -> None:
        if self._memory is None:
            seen = {keys[path]: each for path, each in looks.items() if isinstance(each, FileTraits) and path in keys}
            self._write(_GLANCES + self._asked_for, _sealed(_packed(tuple(seen.items()))))
            return
        for path, each in looks.items():
            if isinstance(each, FileTraits) and path in keys:
                self._memory.keep(self._memory.looks, (path, keys[path]), each)

    def _keep(self, path: str, result: EntryResult) -> None:
        if self._memory is not None:
            self._memory.keep(self._memory.results, (self._entry(path), self._meant), result)
        elif self._folder:
            self._write(self._entry(path), _text_of(result))

    def _known(self, path: str) -> EntryResult | None:
        if self._memory is not None:
            kept = self._memory.results.get((self._entry(path), self._meant))
            return kept if kept is not None and self._holds(kept.asked) else None
        try:
            asked, examined = _result_of(self._read(self._entry(path)))
        except _DAMAGED:
            return None
        return examined if self._holds(asked) else None

    def _holds(self, asked: KeptAnswers) -> bool:
        return all(self._answer(*each) == answer for each, answer in asked.items())

    def _read_glances(self) -> dict[str, FileTraits]:
        try:
            return dict(_unpacked(_checked(self._read(_GLANCES + self._asked_for))))
        except _DAMAGED:
            return {}

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        """Make room, where something was added."""
        if not (self._folder and self._wrote):
            return
        with suppress(OSError):
            self._folder.make_room(MAX_BYTES, int(MAX_BYTES * _KEPT_OF_FULL))

    def _entry(self, path: str) -> str:
        """A program, and how it is started."""
        started = self._started.get(path)
        return path if started is None else "\n".join([path, *map(repr, started)])

    def _name(self, what: str) -> str:
        return digest_of(f"{self._settings}\n{what}".encode("utf-8", "surrogateescape"))

    def _answer(self, name: str, path: str) -> object:
        # Entries of a project ask the same; and what was read already is what counts, whatever is there by now.
        if (name, path) not in self._answers:
            read = self._sources.known(path) if name == CONTENT else None
            if read is not None:
                self._answers[name, path] = read.digest
            elif name == CONTENT and path in self._contents:
                self._answers[name, path] = self._contents[path]
            else:
                self._answers[name, path] = answer_to(name, path)
        return self._answers[name, path]

    def _read(self, what: str) -> str:
        if not self._folder:
            raise FileNotFoundError
        return self._folder.read(self._name(what), MAX_ENTRY_BYTES)

    def _write(self, what: str, text: str) -> None:
        if not self._folder or len(text) > MAX_ENTRY_BYTES:
            return
        # Read only, full, somebody else's, or a path with characters that are no text.
        with suppress(OSError, UnicodeError):
            self._folder.write(self._name(what), text)
            self._wrote = True


def cache_folder() -> str:
    """Where results are kept; empty where there is no such place. Nothing else lies there, whatever lies around it."""
    chosen = os.environ.get("GPUDOCTOR_CACHE_DIR")
    if chosen:
        return os.path.join(os.path.abspath(chosen), "gpudoctor-results")
    around = _folder_of_the_user()
    return around and os.path.join(around, "results")


def _folder_of_the_user() -> str:
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        return ""
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA") or home, "gpudoctor", "Cache")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Caches", "gpudoctor")
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    # The specification wants a relative one ignored; it would lie in the project.
    return os.path.join(chosen if os.path.isabs(chosen) else os.path.join(home, ".cache"), "gpudoctor")


def _text_key(path: str, digest: str) -> str:
    """What a file starts depends on its text, on whether its name is one of Python's own, and on being in a package."""
    folder, name = os.path.split(path)
    return digest + (name if name.startswith("__") else "") + ("." if is_package(folder) else "")


def _settings_of(request: Request) -> str:
    """All that decides a result besides the files of the project."""
    packs = sorted({card.module.partition(".")[0] for card in request.rules} | {"gpudoctor"})
    folders = [folder for pack in packs for folder in getattr(sys.modules.get(pack), "__path__", ())]
    stamps = sorted(stamp for folder in folders for stamp in _stamps(folder))
    rules = sorted(repr(card) for card in request.rules)
    surroundings = [os.getcwd(), os.path.expanduser("~"), request.launch, request.fixes]
    own = __version__, sys.version, stamps, stamp_of_stubs()
    return digest_of(repr((*own, rules, surroundings)).encode("utf-8", "surrogateescape"))


def _stamps(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of each file of code: an edit of an editable installation changes results, too."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat().st_size, entry.stat().st_mtime_ns
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _stamps(entry.path)


# --- as text ---------------------------------------------------------------------------------------------------------
# Not by `gpudoctor.plain`, which would take 1.6 ms more to begin with, where a known script takes 50.

_RECORDS: tuple[type[Any], ...] = (
    Coverage, Edit, Ending, EngineUser, EntryResult, FileTraits, Finding, Fix, Location, ProgramFacts, Related, Silence,
    Unreadable,
)  # fmt: skip
_ENUMS: tuple[type[Enum], ...] = (Cause, Followed, Role, Safety, SeenIn, Severity)
_LEFT_OUT = frozenset({"asked", "by", "cell", "failures", "needs", "repair"})
"""Fields that are empty in a result, or kept beside it."""
_FIELDS = {kind: [each.name for each in fields(kind) if each.name not in _LEFT_OUT] for kind in _RECORDS}
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in (*_RECORDS, *_ENUMS)}
_SET = "set"


def _packed(value: Any) -> Any:
    """As JSON: records, enums and sets are objects with the name of their kind, and tuples are lists."""
    kind = type(value)
    if kind in _FIELDS:
        return {kind.__name__: [_packed(getattr(value, name)) for name in _FIELDS[kind]]}
    if kind in _ENUMS:
        return {kind.__name__: value.value}
    if kind is frozenset:
        return {_SET: sorted(value)}
    return [*map(_packed, value)] if kind is tuple else value


def _unpacked(plain: Any) -> Any:
    """What `_packed` has made this of."""
    if type(plain) is list:
        # Most are of texts and numbers, which are what they are.
        return tuple([each if type(each) not in (list, dict) else _unpacked(each) for each in plain])
    if type(plain) is not dict:
        return plain
    ((name, held),) = plain.items()
    if name == _SET:
        return frozenset(held)
    kind = _KINDS[name]
    return kind(**dict(zip(_FIELDS[kind], _unpacked(held), strict=True))) if kind in _FIELDS else kind(held)


def _sealed(plain: Any) -> str:
    """The data as text, with what tells whether it is whole."""
    import json

    text = json.dumps(plain, separators=(",", ":"))
    return f"{digest_of(text.encode())}\n{text}"


def _checked(text: str) -> Any:
    import json

    digest, _, rest = text.partition("\n")
    if digest != digest_of(rest.encode()):
        raise ValueError("damaged")
    return json.loads(rest)


def _text_of(result: EntryResult) -> str:
    return _sealed([[[name, path, answer] for (name, path), answer in result.asked.items()], _packed(result)])


def _result_of(text: str) -> tuple[KeptAnswers, EntryResult]:
    asked, result = _checked(text)
    found: EntryResult = _unpacked(result)
    return {(name, path): answer for name, path, answer in asked}, found
