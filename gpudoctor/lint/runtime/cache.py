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
from gpudoctor.lint.entry_result import EntryResult
from gpudoctor.lint.program_facts import EngineUser, ProgramFacts
from gpudoctor.lint.runtime.private_folder import OwnFolder
from gpudoctor.lint.source.file import Unreadable, shown_path
from gpudoctor.lint.source.file_queries import CONTENT, KeptAnswers, answer_to, digest_of
from gpudoctor.lint.source.file_traits import FileTraits, Role
from gpudoctor.lint.source.layout import is_package
from gpudoctor.record import fields

if TYPE_CHECKING:
    from gpudoctor.lint.request import Request
    from gpudoctor.lint.source.file import Sources

MAX_BYTES = 64 * 1024 * 1024
"""Of all results together. Beyond it the oldest ones go."""
MAX_ENTRY_BYTES = 2 * 1024 * 1024
_KEPT_OF_FULL = 0.75
_GLANCES = "glances at "

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
        return {path: glance for path, key in keys.items() if (glance := _glance(path, kept.get(key))) is not None}

    def _keep_glances(self, keys: Mapping[str, str], looks: Mapping[str, FileTraits | Unreadable]) -> None:
        if self._memory is None:
            self._write(_GLANCES + self._asked_for, _packed_glances(keys, looks))
            return
        for path, each in looks.items():
            if isinstance(each, FileTraits) and path in keys:
                self._memory.keep(self._memory.looks, (path, keys[path]), each)

    def _keep(self, path: str, result: EntryResult) -> None:
        if self._memory is not None:
            self._memory.keep(self._memory.results, (self._entry(path), self._meant), result)
        elif self._folder:
            self._write(self._entry(path), _packed(result))

    def _known(self, path: str) -> EntryResult | None:
        if self._memory is not None:
            kept = self._memory.results.get((self._entry(path), self._meant))
            return kept if kept is not None and self._holds(kept.asked) else None
        try:
            asked, examined = _unpacked(self._read(self._entry(path)))
        # Written by nobody knows whom, or cut off.
        except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
            return None
        return examined if self._holds(asked) else None

    def _holds(self, asked: KeptAnswers) -> bool:
        return all(self._answer(*each) == answer for each, answer in asked.items())

    def _read_glances(self) -> dict[str, list[Any]]:
        try:
            found = _checked(self._read(_GLANCES + self._asked_for))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

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
    return digest_of(repr((__version__, sys.version, stamps, rules, surroundings)).encode("utf-8", "surrogateescape"))


def _stamps(folder: str) -> Iterator[tuple[str, int, int]]:
    """Path, size and time of each file of code: an edit of an editable installation changes results, too."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat().st_size, entry.stat().st_mtime_ns
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _stamps(entry.path)


# --- as text ---------------------------------------------------------------------------------------------------------
# By hand: `gpudoctor.plain` would take 1.6 ms more to begin with, where a known script takes 50, and 0.13 ms
# in place of 0.09 for each entry.


def _sealed(plain: dict[str, Any]) -> str:
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


def _packed(examined: EntryResult) -> str:
    plain = {
        "asked": [[name, path, answer] for (name, path), answer in examined.asked.items()],
        "shown": examined.shown,
        "findings": [_plain_finding(each) for each in examined.findings],
        "files": sorted(examined.files),
        "unreadable": [_plain_unreadable(each) for each in examined.unreadable],
        "partly": examined.partly,
        "limits": list(examined.limits),
        "coverage": [_plain_coverage(each) for each in examined.coverage],
        "facts": examined.facts and _plain_facts(examined.facts),
    }
    return _sealed(plain)


def _unpacked(text: str) -> tuple[KeptAnswers, EntryResult]:
    plain = _checked(text)
    examined = EntryResult(
        shown=plain["shown"],
        findings=tuple(map(_finding, plain["findings"])),
        files=frozenset(plain["files"]),
        unreadable=tuple(Unreadable(*fields) for fields in plain["unreadable"]),
        partly=plain["partly"],
        limits=tuple(plain["limits"]),
        coverage=tuple(map(_coverage, plain["coverage"])),
        facts=plain["facts"] and ProgramFacts(*map(_fact, plain["facts"])),
    )
    return {(name, path): answer for name, path, answer in plain["asked"]}, examined


def _packed_glances(keys: Mapping[str, str], looks: Mapping[str, FileTraits | Unreadable]) -> str:
    seen = [(path, each) for path, each in looks.items() if isinstance(each, FileTraits) and path in keys]
    return _sealed({keys[path]: [each.role, each.quiet, each.commented, each.is_test] for path, each in seen})


def _glance(path: str, plain: Any) -> FileTraits | None:
    try:
        role, quiet, commented, is_test = plain
        return FileTraits(path, shown_path(path), Role(role), bool(quiet), bool(commented), bool(is_test))
    except (TypeError, ValueError):
        return None


def _plain_finding(each: Finding) -> list[Any]:
    fix = each.fix and [each.fix.safety.value, each.fix.title, [[*_spot(e.location), e.text] for e in each.fix.edits]]
    related = [[*_spot(place.location), place.message] for place in each.related]
    unwritten = each.unwritten and each.unwritten.value
    words = [each.code, each.name, each.severity.value, each.message, each.remedy, each.world, each.launcher]
    cause = each.cause and _spot(each.cause)
    rest = [each.seen_in.value, _spot(each.location), related, fix, cause, unwritten, each.doubt]
    return [*words, *rest, each.started_by]


def _finding(plain: list[Any]) -> Finding:
    code, name, severity, message, remedy, world, launcher, seen_in, *rest = plain
    spot, related, fix, cause, unwritten, doubt, started_by = rest
    return Finding(
        code,
        name,
        Severity(severity),
        message,
        Location(*spot),
        remedy,
        tuple(Related(text, Location(*place)) for *place, text in related),
        SeenIn(seen_in),
        fix and Fix(Safety(fix[0]), fix[1], tuple(Edit(Location(*place), text) for *place, text in fix[2])),
        world,
        launcher,
        cause=cause and Location(*cause),
        unwritten=unwritten and Safety(unwritten),
        doubt=doubt,
        started_by=started_by,
    )


def _plain_coverage(each: Coverage) -> list[Any]:
    end = each.ended_by and [each.ended_by.reason, _place(each.ended_by.at)]
    silent, idle = list(map(_plain_silence, each.silent_for)), list(map(_plain_silence, each.idle))
    trains = [_spot(at) for at in each.trains_at]
    known = [each.path, each.world, each.followed.value, each.training_loops, end, silent, trains, idle]
    return [*known, each.weight, each.awaits, each.started]


def _coverage(plain: list[Any]) -> Coverage:
    path, world, followed, loops, end, silent, trains, idle, weight, awaits, started = plain
    return Coverage(
        path,
        world,
        Followed(followed),
        loops,
        end and Ending(end[0], _location(end[1])),
        tuple(map(_silence, silent)),
        tuple(Location(*each) for each in trains),
        tuple(map(_silence, idle)),
        weight,
        tuple(awaits),
        started,
    )


def _plain_facts(each: ProgramFacts) -> list[Any]:
    return [_plain_fact(getattr(each, name.name)) for name in fields(ProgramFacts)]


def _plain_fact(value: Any) -> Any:
    if isinstance(value, Location):
        return {"at": _spot(value)}
    if isinstance(value, EngineUser):
        return {"engine": [_plain_fact(getattr(value, name.name)) for name in fields(EngineUser)]}
    return [_plain_fact(each) for each in value] if isinstance(value, tuple) else value


def _fact(plain: Any) -> Any:
    if isinstance(plain, dict):
        return EngineUser(*map(_fact, plain["engine"])) if "engine" in plain else Location(*plain["at"])
    return tuple(map(_fact, plain)) if isinstance(plain, list) else plain


def _plain_silence(each: Silence) -> list[Any]:
    return [each.cause.value, each.rules, each.what, _place(each.at), each.missed, each.about, each.beside]


def _silence(plain: list[Any]) -> Silence:
    cause, rules, what, at, missed, about, beside = plain
    return Silence(Cause(cause), tuple(rules), what, _location(at), missed, about, beside)


def _place(at: Location | None) -> list[Any] | None:
    return _spot(at) if at is not None else None


def _location(spot: list[Any] | None) -> Location | None:
    return Location(*spot) if spot is not None else None


def _spot(at: Location) -> list[Any]:
    return [at.path, at.line, at.column, at.end_line, at.end_column]


def _plain_unreadable(file: Unreadable) -> list[Any]:
    return [
        file.path,
        file.shown,
        file.line,
        file.column,
        file.message,
        file.needs_python,
        file.by_limit,
        file.opened,
        file.in_cell,
        file.refused,
        file.first,
    ]
