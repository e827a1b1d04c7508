"""What is known of libraries, compiled: what the stubs say of functions, and the lists that `libraries.py` makes.

A wheel has the table from its build (`hatch_build.py`). In a checkout it is kept beside the bytecode, and like it:
where a stub was changed, added or removed since, all of it is read anew.
"""

from __future__ import annotations

import marshal
import os
from functools import cache, lru_cache
from typing import Any, TypeVar

from gpudoctor.manifest.effects import WORDS, Effect, kind_of

E = TypeVar("E", bound=Effect)

HERE = os.path.dirname(__file__)
STUBS = os.path.join(HERE, "stubs")
SHIPPED = "compiled.table"
"""The file of a wheel that was built with it."""
_KEPT = os.path.join(HERE, "__pycache__", SHIPPED)
# Not the newest: a wheel is for all versions of Python. Names that occur twice are written once.
_MARSHAL_VERSION = 4
_MADE_OF = ("effects.py", "compiled.py", "libraries.py", "spellings.py", "stub_files.py", "telling_names.py")
"""Files that the table hangs on besides the stubs."""


class Declared:
    """A function as its stub declares it."""

    __slots__ = ("_effects", "kinds", "name", "names", "required", "returns")

    def __init__(self, name: str, entry: tuple[Any, ...]) -> None:
        self.name = name
        self.names, self.kinds, self.required, self.returns, self._effects = entry

    def position(self, parameter: str) -> int:
        """Where a parameter stands; -1 where there is none of this name, or it can only be named."""
        # What follows on an empty name can only be named.
        names = self.names
        at = names.index(parameter) if parameter in names else -1
        return at if at < names.index("") else -1

    @property
    def positional(self) -> tuple[str, ...]:
        """The parameters that have a position."""
        found: tuple[str, ...] = self.names[: self.names.index("")]
        return found

    @property
    def first(self) -> str:
        """Its first parameter."""
        return str(self.names[0])

    def kind(self, parameter: str) -> str:
        """The annotation of a parameter."""
        return str(self.kinds[self.names.index(parameter)])

    @property
    def words(self) -> tuple[str, ...]:
        """The words that stand at it."""
        return tuple(self._effects)

    @property
    def makes(self) -> tuple[str, ...]:
        """The classes of what it returns, of several things each; empty where that is said in other words."""
        return () if kind_of(self.returns) or not self.returns else tuple(self.returns.split(","))

    def effect(self, kind: type[E]) -> E | None:
        """What it does of this kind."""
        said = next((said for word, said in self._effects.items() if WORDS[word] is kind), None)
        return kind(**said) if said is not None else None


@lru_cache(maxsize=512)
def declared(name: str) -> Declared | None:
    """The function or method of this dotted name."""
    found = table()["signatures"].get(name)
    return Declared(name, marshal.loads(found)) if found is not None else None


@lru_cache(maxsize=512)
def class_made_by(name: str, part: int = 0) -> str:
    """The class of what a function returns, of a tuple of what stands at this place in it; the function itself where no
    stub says so."""
    found = declared(name)
    made = found.makes[part : part + 1] if found is not None else ()
    return next(iter(made), "") or name


def methods(cls: str) -> tuple[str, ...]:
    """The names of the methods that the stub of a class has."""
    return tuple(_methods().get(cls, ()))


@cache
def _methods() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in table()["signatures"]:
        owner, _, last = name.rpartition(".")
        found.setdefault(owner, []).append(last)
    return found


def layers(what: str) -> frozenset[str]:
    """The names of layers of `torch.nn` of which a field of `LayerEffect` is true."""
    found: frozenset[str] = table()["named"]["layer"][what]
    return found


@cache
def operations(*what: str) -> frozenset[str]:
    """The names of functions and methods of which one of these fields of `ComputeEffect` is true; `method` is of all
    methods."""
    found = table()["named"]["computes"]
    return frozenset[str]().union(*[found[each] for each in what])


def kind_of_attribute(cls: str, name: str) -> str:
    """What an attribute of the objects of a class is; empty where no stub says so."""
    return str(table()["attributes"].get(f"{cls}.{name}", ""))


def error_above(name: str) -> str:
    """Python's own exception from which one of a library derives; empty where no stub says so."""
    return str(table()["errors"].get(name, ""))


def body(name: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """What a function does: its text, and the dotted names of what it names; None where no stub says so."""
    found: tuple[str, tuple[tuple[str, str], ...]] | None = _bodies().get(name)
    return found


def classes() -> frozenset[str]:
    """The classes of which a stub says what they have and do."""
    found: frozenset[str] = table()["classes"]
    return found


def values() -> dict[str, str]:
    """What names of modules are that are no functions."""
    found: dict[str, str] = table()["values"]
    return found


def functions(word: str) -> tuple[str, ...]:
    """The functions that a word stands at, or that return a value of its kind."""
    found: tuple[str, ...] = table()["functions"].get(word, ())
    return found


def aliases() -> dict[str, str]:
    """Other dotted names, and the one that is known; both end in a dot where that goes for all below."""
    found: dict[str, str] = table()["aliases"]
    return found


def roots(field: str) -> frozenset[str]:
    """The libraries that a field of `LibraryEntry` says something about as a whole; `known` are all of them."""
    found: frozenset[str] = table()["roots"][field]
    return found


def parts(field: str) -> tuple[str, ...]:
    """What the dotted names begin with that a field is about beside whole libraries."""
    found: tuple[str, ...] = table()["parts"][field]
    return found


def prefixes(field: str) -> tuple[str, ...]:
    """What the dotted names begin with that a field is about, of libraries and of parts of them."""
    found: tuple[str, ...] = table()["prefixes"][field]
    return found


def mentions(*, relevant: bool = False) -> tuple[str, ...]:
    """Words of texts that may train; with `relevant` only those that concern each function they stand in."""
    found: tuple[str, ...] = table()["relevant mentions" if relevant else "mentions"]
    return found


def taking_charge() -> dict[str, str]:
    """Dotted names that take charge of a training when they are called, and the framework that does so then."""
    found: dict[str, str] = table()["taking charge"]
    return found


def preparing() -> tuple[str, ...]:
    """Those among them that only prepare it."""
    found: tuple[str, ...] = table()["prepares"]
    return found


def belonging() -> dict[str, str]:
    """What dotted names begin with of which all belongs to a framework, and its name."""
    found: dict[str, str] = table()["belonging"]
    return found


def words() -> tuple[str, ...]:
    """What names are made of that may be `telling`, to look for in a text."""
    found: tuple[str, ...] = _words()["searched"]
    return found


def trains(name: str) -> bool:
    """Whoever calls this, or what is called so, seems to train, to make what trains, or to start ranks."""
    names: frozenset[str]
    endings: tuple[str, ...]
    last, (names, endings) = name.rpartition(".")[2], table()["training"]
    return name in names or last in names or last.endswith(endings)


def pattern(kind: str) -> str:
    """The pattern of names that have `other meanings`, or of `texts` that are telling."""
    return str(_words()[kind])


def telling_parts() -> dict[str, tuple[tuple[str, str, str], ...]]:
    """What names are made of that are telling, as `telling_names` says."""
    found: dict[str, tuple[tuple[str, str, str], ...]] = _words()["telling"]
    return found


def known_better() -> dict[str, tuple[str, ...]]:
    """Libraries whose models say more than their source, and what they are told by."""
    found: dict[str, tuple[str, ...]] = table()["known better"]
    return found


def stamp_of_stubs() -> int:
    """It is another one after an edit of a stub; 0 of a table that was shipped, which no edit changes."""
    stamp: int = table().get("stamp", 0)
    return stamp


@cache
def table() -> dict[str, Any]:
    """All that is known."""
    try:
        # Of an archive no file can be opened.
        data = __loader__.get_data(os.path.join(HERE, SHIPPED))  # type: ignore[name-defined]
    except OSError:
        return _of_checkout()
    read: dict[str, Any] = marshal.loads(data)
    return read


def _of_checkout() -> dict[str, Any]:
    """The kept table where it is fresh, else what the stubs say now."""
    try:
        with open(_KEPT, "rb") as file:
            names, stamp, read = marshal.loads(file.read())
        if stamp == _stamp(names):
            found: dict[str, Any] = read
            return found
    # None yet, a file that is gone, cut short, or of another version.
    except (OSError, ValueError, TypeError, EOFError, AttributeError):
        pass
    return _read_anew()


def _read_anew() -> dict[str, Any]:
    # Imported late: mostly all of it is known.
    from gpudoctor.drafts import replace_file
    from gpudoctor.manifest.stub_files import stub_files

    files = [os.path.relpath(path, HERE) for path, _ in stub_files(STUBS)]
    # A folder is another one when a file was added to it.
    folders = {os.path.dirname(name) for name in files}
    names = " ".join([*files, *folders, *_MADE_OF])
    stamp = _stamp(names)
    found = {**_compiled(), "stamp": stamp}
    try:
        os.makedirs(os.path.dirname(_KEPT), exist_ok=True)
        replace_file(_KEPT, marshal.dumps((names, stamp, found), _MARSHAL_VERSION))
    except OSError:
        pass
    return found


def _stamp(names: str) -> int:
    """What tells that one of these files has changed, without reading it."""
    # At each start: `os.path.join` takes as long as to ask.
    found = [os.stat(f"{HERE}/{name}") for name in names.split()]
    return hash(tuple([part for each in found for part in (each.st_mtime_ns, each.st_size)]))


def _compiled() -> dict[str, Any]:
    from gpudoctor.manifest.libraries import derived
    from gpudoctor.manifest.stub_files import read_stubs
    from gpudoctor.manifest.telling_names import patterns

    said, listed = read_stubs(STUBS), derived()
    found = patterns(said, listed)
    named = {"layer": _named(said, "layer"), "computes": _named(said, "computes")}
    # What does no more than compute is known by its last name alone.
    functions = {name: each for name, each in said["functions"].items() if each[-1].keys() != {"computes"}}
    known = {**functions, **{name: each for name, each in said["methods"].items() if "computes" not in each[-1]}}
    # What is said in the same words of several is written once, as of most layers.
    written: dict[bytes, bytes] = {}
    signatures = {name: marshal.dumps(entry, _MARSHAL_VERSION) for name, entry in known.items()}
    by_word: dict[str, list[str]] = {}
    for name, (*_, returns, effects) in functions.items():
        for word in (*effects, *filter(None, [kind_of(returns)])):
            by_word.setdefault(word, []).append(name)
    return {
        **listed,
        "aliases": {**listed["aliases"], **said["aliases"]},
        "functions": {word: tuple(names) for word, names in by_word.items()},
        "values": said["values"],
        "attributes": said["attributes"],
        # Most programs ask for none. What several classes have is one object, and written once.
        "bodies": marshal.dumps(said["bodies"], _MARSHAL_VERSION),
        "classes": frozenset(said["classes"]),
        "errors": said["errors"],
        "training": found.pop("training"),
        "named": named,
        # Each for itself: a program calls few of them.
        "signatures": {name: written.setdefault(entry, entry) for name, entry in signatures.items()},
        # A script has no functions that could be left out.
        "words": marshal.dumps(found, _MARSHAL_VERSION),
    }


def _named(said: dict[str, Any], word: str) -> dict[str, frozenset[str]]:
    """By each field of what a word says: the last names of all of which it is true. And of all that is a `method`."""
    found: dict[str, set[str]] = {what: set() for what in ("method", *WORDS[word].__annotations__)}
    for kind, more in (("functions", {}), ("methods", {"method": True})):
        for name, (*_, effects) in said[kind].items():
            last = name.rpartition(".")[2]
            for what in {**effects[word], **more} if word in effects else ():
                found[what].add(last)
    return {what: frozenset(names) for what, names in found.items()}


@cache
def _bodies() -> dict[str, Any]:
    found: dict[str, Any] = marshal.loads(table()["bodies"])
    return found


@cache
def _words() -> dict[str, Any]:
    found: dict[str, Any] = marshal.loads(table()["words"])
    return found


def built() -> bytes:
    """What a wheel is built with."""
    return marshal.dumps(_compiled(), _MARSHAL_VERSION)
