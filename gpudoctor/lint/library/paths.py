"""Paths: `os.path`, `pathlib`, and the search path of modules that programs compute with them.

A path is a text that is known in parts, so that what tells the ranks apart is kept. Where it begins with the place of
the program's own file, it is known which folder of the project it is, and `sys.path` takes it.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.container import ListOf, TupleOf
from gpudoctor.lint.domain.function import Library, library_name_of
from gpudoctor.lint.domain.symbols import Attribute, Operation, PlaceOnDisk
from gpudoctor.lint.domain.value import NONE, SEPARATOR, Const, Text, Unknown, Value, Values, single_of, text_of
from gpudoctor.lint.interface.contents import default_of, known_items
from gpudoctor.lint.interface.hooks import HOOKS, answers, told
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, flatten, singleton

_MOST_PARENTS = 8
_A_FEW = 3
_SEARCH_PATH = "sys.path"


# --- os.path ----------------------------------------------------------------------------------------------------------


@MODELS.callable(
    "os.path.abspath", "os.path.expanduser", "os.path.realpath", "os.path.normpath", "os.path.expandvars", "os.fspath",
)  # fmt: skip
def _path(call: Call) -> Values:
    # Each of the paths that it may be stays one of its own.
    return call.args[0].map(lambda path: Text((path,))) if len(call.args) == 1 else NOT_ANSWERED


@MODELS.callable("os.path.join")
def _join(call: Call) -> Values:
    several = [at for at, given in enumerate(call.args) if 1 < len(given) <= _A_FEW]
    if len(several) != 1:
        return singleton(_path_of(call.do, call.all_values()))
    # Each of the paths that one part makes stays one of its own.
    before, either, behind = call.args[: several[0]], call.args[several[0]], call.args[several[0] + 1 :]
    front, back = ([value for given in side for value in given] for side in (before, behind))
    return either.map(lambda part: _path_of(call.do, [*front, part, *back]))


def _path_of(do: LibraryContext, parts: list[Value]) -> Text:
    return Text(_joined(part for part in flatten(do, parts) if known_text(part) != ""))


def _joined(parts: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(each for part in parts for each in (SEPARATOR, part))[1:]


@MODELS.callable("os.path.dirname")
def _folder(call: Call) -> Values:
    path = call.arg(0, "p")
    return path.map(lambda each: _without_last(_chosen(call.do, each))) if path is not None else NOT_ANSWERED


def _chosen(do: LibraryContext, path: Value) -> Value:
    """In the place of a settings file that the user names the one that was read: other files lie around it."""
    parts = path.in_text or (path,)
    usual = text_of(default_of(do, parts[0]))
    if usual is not None and not os.path.isabs(usual):
        found = do.modules.settings_in(usual)
        usual = found[0] if found is not None else None
    if usual is not None:
        return Text((_place(usual, True), *parts[1:]))
    # `os.path.join(os.path.dirname(args.config), loaded["base"])`
    place = on_disk(Text(tuple([default_of(do, part) or part for part in parts])))
    return path if place is None or do.modules.settings_in(place) is None else _place(place, True)


@MODELS.callable("os.path.basename")
def _last(call: Call) -> Values:
    path = call.arg(0, "p")
    return path.map(lambda each: _last_part(each, call.label)) if path is not None else NOT_ANSWERED


def _last_part(path: Value, label: str) -> Value:
    known = text_of(path) or on_disk(path)
    if known is not None:
        return Const(os.path.basename(known))
    # Which part of it names the rank is not known.
    # What its methods return is as much of a text as it is.
    why, made_by = "a part of a path", "os.path.basename"
    return Unknown(
        Attribute(path, "name"), why, label, path.divergence, path.is_setting, escaped_from=made_by, kind="str"
    )


@MODELS.callable("os.path.split")
def _split(call: Call) -> Values:
    path = call.arg(0, "p")
    only = single_of(path)
    # Of other paths it is not known where the last part begins.
    if only is None or on_disk(only) is None:
        return NOT_ANSWERED
    return singleton(TupleOf((singleton(_without_last(only)), singleton(_last_part(only, call.label)))))


def _without_last(path: Value) -> Value:
    """What stands before the last part that was joined on; all of it where that is not known."""
    whole = path if isinstance(path, Text) else Text((path,))
    place = on_disk(whole)
    if place is not None:
        return _place(os.path.dirname(place), whole.parts[0].is_setting)
    known, before = known_text(whole), Text(whole.folder_parts)
    if known is not None:
        above = os.path.dirname(known)
        # `os.path.join(root, name)` gives the same folder as `root`.
        return before if above == known_text(before) else Text((Const(above),))
    # What tells the ranks apart may itself hold a separator.
    apart = any(part.divergence for part in whole.parts[len(before.parts) :])
    return whole if apart or not before.parts else before


# --- pathlib ----------------------------------------------------------------------------------------------------------


@MODELS.callable(
    "pathlib.Path", "pathlib.PosixPath", "pathlib.WindowsPath", "pathlib.PurePath", "pathlib.PurePosixPath",
    "pathlib.PureWindowsPath",
)  # fmt: skip
def _pathlib(call: Call) -> Values:
    # Without any part it is where the program is started.
    return singleton(Text(_joined(call.all_values()) or (Const("."),)))


@MODELS.method(Text, "joinpath", "with_name", "with_stem", "with_suffix", "with_segments")
def _joinpath(call: Call[Text]) -> Values:
    """What is put behind a path, or in the place of its last part."""
    given = flatten(call.do, call.values_and_rest())
    return singleton(Text(_joined((call.receiver, *given)) if call.name == "joinpath" else (call.receiver, *given)))


@MODELS.method(Text, "replace", "join")
def _replace(call: Call[Text]) -> Values:
    """What is written into a text tells the texts of the ranks apart as well as what stood there."""
    given = flatten(call.do, call.all_values())
    return singleton(Text((call.receiver, *(value for value in given if not value.is_constant))))


@MODELS.attribute(Text, "parent", "parents", "name", "stem", "suffix", "suffixes", "parts")
def _part_of_path(call: Call[Text]) -> Values:
    """Which part of it names the rank is not known, but for a file of the program: where one part ends is not kept."""
    if call.name == "parent":
        whole = _chosen(call.do, call.receiver)
        if on_disk(whole) is not None or known_text(whole) is not None:
            above = _without_last(whole)
            return singleton(Text((Const("."),)) if known_text(above) == "" else above)
    place = on_disk(call.receiver)
    if place is not None and call.name == "parents":
        return singleton(TupleOf(tuple(map(singleton, _above(place)))))
    last = os.path.basename(place or known_text(call.receiver) or "")
    named = {"name": last, "stem": os.path.splitext(last)[0], "suffix": os.path.splitext(last)[1]}.get(call.name)
    if last and named is not None:
        return singleton(Const(named))
    term = Attribute(call.receiver, call.name)
    return call.unknown(term, "a part of a path", call.receiver.divergence, escaped_from="pathlib.Path")


# --- places on this machine -------------------------------------------------------------------------------------------


def on_disk(path: Value) -> str | None:
    """The path on this machine, where it is counted from the program's own file in parts that are all known."""
    parts = path.parts if isinstance(path, Text) else (path,)
    place = parts[0].term if parts else None
    if not isinstance(place, PlaceOnDisk):
        return None
    joined = place.path
    for part in parts[1:]:
        text = text_of(part)
        if text is None:
            return None
        # `Path(here, "lib")` and `here + "/lib"` are one.
        joined += text if text.startswith("/") or joined.endswith("/") else f"/{text}"
    return os.path.normpath(joined)


def _place(path: str, chosen: bool = False) -> Text:
    """A path on this machine; with `chosen`, the user may have named another one."""
    return Text((Unknown(PlaceOnDisk(path), "a path", os.path.basename(path), config=chosen),))


def _above(place: str) -> Iterable[Text]:
    """The folder that it is in, the one above that, and so on."""
    for _ in range(_MOST_PARENTS):
        place = os.path.dirname(place)
        yield _place(place)


_ROOTS = ("rootutils", "pyrootutils")
_MARKS = (".project-root", "setup.cfg", "setup.py", ".git", "pyproject.toml")
"""What `rootutils` takes for a sign of a project's root, where it is told none."""


@MODELS.callable(*(f"{library}.{name}" for library in _ROOTS for name in ("setup_root", "find_root")))
def _root(call: Call) -> Values:
    """`rootutils.setup_root(__file__, indicator=".project-root")`: the nearest folder above that holds one of these."""
    start = single_of(call.arg(0, "search_from"))
    place = on_disk(start) if start is not None else None
    given = call.arg(1, "indicator")
    marks = _MARKS if given is None else tuple(filter(None, map(text_of, flatten(call.do, list(given)))))
    folder = call.do.modules.folder_above(place, marks) if place is not None else None
    if folder is None:
        return NOT_ANSWERED
    if call.is_true(-1, "pythonpath"):
        call.do.modules.add_search_path(folder, first=True)
    return singleton(_place(folder))


# --- sys.path ---------------------------------------------------------------------------------------------------------


@MODELS.callable("sys.path.append", "sys.path.insert", "sys.path.extend", "site.addsitedir")
def _search_path(call: Call) -> Values:
    if call.args:
        _search_in(call.do, call.args[-1], first=call.name == "sys.path.insert")
    return singleton(NONE)


@told(HOOKS.augmented)
def _lengthened(do: LibraryContext, old: Values, by: Values, node: ast.AST) -> None:
    """`sys.path += [folder]`."""
    if any(map(_is_search_path, old)):
        _search_in(do, by, first=False)


@told(HOOKS.attribute_sets)
def _replaced(do: LibraryContext, owner: Value, name: str, values: Values, place: Location) -> None:
    """`sys.path = [folder, *sys.path]`."""
    if f"{library_name_of(owner)}.{name}" == _SEARCH_PATH:
        _search_in(do, values, first=True)


@answers(HOOKS.item_set, Library)
def _put_in(do: LibraryContext, value: Library, _: Values, new: Values) -> None:
    """`sys.path[:0] = [folder]`."""
    if _is_search_path(value):
        _search_in(do, new, first=True)


def _is_search_path(value: Value) -> bool:
    return library_name_of(value) == _SEARCH_PATH


def _search_in(do: LibraryContext, folders: Values, *, first: bool) -> None:
    for folder in folders.restrict(do.path):
        items = _items(do, folder)
        for one in items or ():
            _search_in(do, one, first=first)
        path = folder.value if isinstance(folder, Const) else on_disk(folder) or known_text(folder)
        if items is None and isinstance(path, str):
            do.modules.add_search_path(path, first=first)


def _items(do: LibraryContext, value: Value) -> Iterable[Values] | None:
    """What a list of folders holds that the program itself has put there."""
    # `[folder] + sys.path`.
    if isinstance(value.term, Operation) and value.term.operator == "+":
        return map(singleton, (value.term.left, value.term.right))
    if isinstance(value, ListOf):
        return map(singleton, flatten(do, [value]))
    return known_items(do, value) if isinstance(value, TupleOf) else None


def known_text(path: Value) -> str | None:
    """The text of a path all of whose parts are known, as of `os.path.join("..", "lib")`."""
    if not isinstance(path, Text):
        return text_of(path)
    parts = [text for part in path.parts if (text := text_of(part)) is not None]
    return "".join(parts) if len(parts) == len(path.parts) else None
