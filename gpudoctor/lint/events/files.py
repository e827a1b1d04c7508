"""Events of files: checkpoints that are written and read, folders, downloads."""

from __future__ import annotations

from typing import TypeAlias

from gpudoctor.lint.domain.device import Devices
from gpudoctor.lint.domain.function import Library
from gpudoctor.lint.domain.heuristics import OWN_DISK
from gpudoctor.lint.domain.module import Module, StateDict, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Scaler, Scheduler
from gpudoctor.lint.domain.symbols import AnyOf, CallResult, EachOf, IsTrue, Item
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import NONE, Const, Text, Unknown, Value, Values, of_kinds, single_of, text_of
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.flow.condition import Condition, Divergence, Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.manifest.compiled import functions
from gpudoctor.record import dataclass

OF_ONE_NODE = ("/tmp", "/scratch", "/local", "/dev/shm", "/var/tmp")
"""Folders that each node has for itself."""
_TOLD_APART = Divergence.RANK | Divergence.LOCAL | Divergence.UNREAD

Path: TypeAlias = ValueSet[Const | Text | Library | Unknown]
"""Where a file is, as far as it is known."""


def as_path(values: Values | None) -> Path | None:
    """What is given for a path; something else is as good as unknown."""
    return of_kinds(values, Const, Text, Library, Unknown)


@dataclass(frozen=True, kw_only=True)
class FileEvent(Event):
    """Something is done to a file or a folder. What is asked of its path is answered here."""

    path: Path | None
    spelled: str = ""
    """How the program writes the path: `out / "model.pt"`; an empty text where that is not known."""

    @property
    def path_text(self) -> str:
        """The whole path; empty where it is not known."""
        return text_of(single_of(self.path)) or ""

    @property
    def on_one_path(self) -> bool:
        """All ranks surely have the same path."""
        return self.path is not None and self.path.all(_agreed)

    def path_differs(self, how: Divergence) -> bool:
        """Ranks may have paths that differ so."""
        return any(value.divergence & how for value in self.path or ())

    @property
    def user_names_path(self) -> bool:
        """Who starts the program says where it is."""
        return self.path is not None and self.path.all(lambda value: value.config)

    def is_of(self, other: FileEvent) -> bool:
        """It may be the same file: one path that both may use is enough, or one that was found where the other lies."""
        mine, other_paths = set(self.path or ()), set(other.path or ())
        if not mine.isdisjoint(other_paths):
            return True
        found = (_listed_in(path) for path in other_paths)
        return any(path.folder_parts == folder for folder in found if folder for path in mine)

    @property
    def where_missing(self) -> bool:
        """The program comes by only where it has found that there is no such file."""
        return any(not asked.isdisjoint(self.path or ()) for asked in map(_not_there, self.condition))

    @property
    def on_own_disk(self) -> bool:
        """A part of its path is a folder that each node has for itself, or is called like one."""
        parts = [part for value in self.path or () for part in value.in_text]
        texts = (text for part in parts if (text := text_of(part)) is not None)
        named = any(OWN_DISK.fits(part.label) for part in parts if part.term is not None)
        return named or any(text.startswith(OF_ONE_NODE) for text in texts)

    def path_shown(self, otherwise: str = "the same path") -> str:
        """The path for a message: the text where it is known, else as the program writes it."""
        only, spelled = single_of(self.path), self.spelled
        if (text := text_of(only)) is not None:
            # `os.makedirs("")` names nothing.
            return f"`{text}`" if text.strip() else otherwise
        label = only.label if isinstance(only, Unknown) else ""
        # Behind the name of a variable stands a text that says more: `settings.yaml`, `args.out`.
        plain = not spelled or all(part.isidentifier() for part in spelled.split("."))
        # A file may have one name in several folders.
        names = set(map(_file_name, self.path or ()))
        name = ((names.pop() if len(names) == 1 else "") or label or spelled) if plain else spelled
        return f"`{name}`" if name else otherwise


def _listed_in(path: Value) -> tuple[Value, ...]:
    """The folder in which this file was found: `os.path.join(folder, name)` of one of `os.listdir(folder)`, or one of
    `glob.glob(...)`; nothing where it was not found so."""
    last_part = next(reversed(path.in_text), None)
    term = last_part.term if last_part is not None else None
    match term.of.term if isinstance(term, (EachOf, Item)) else None:
        case CallResult(function="os.listdir"):
            return path.folder_parts
        case CallResult(function="glob.glob" | "glob.iglob", given=((ValueSet() as patterns, *_), _)):
            pattern = single_of(patterns)
            return pattern.folder_parts if pattern is not None else ()
    return ()


def _agreed(path: Value) -> bool:
    # One part that differs is enough to keep the files of the ranks apart.
    if isinstance(path, Text):
        return all(map(_agreed, path.parts))
    if path.is_constant:
        # A path of None writes nothing, or to a place that the callee chooses.
        return path != NONE
    if isinstance(path, Library):
        return path.is_named_constant
    # A path from unread code may hold the rank or the time: then files may differ.
    return isinstance(path, Unknown) and not path.divergence & _TOLD_APART


def _file_name(path: Value) -> str:
    """The name at the end of a path of which that much is known."""
    last = path.parts[-1] if isinstance(path, Text) else None
    text = text_of(last) or ""
    name = text.rpartition("/")[2]
    # Behind a name that is not known stands the end of it: `f"{name}_best.pt"`.
    whole = name != text or name[:1].isalnum()
    return name if whole and "." in name.strip(".") and not set(name) & set("{}%") else ""


@dataclass(frozen=True, kw_only=True)
class Save(FileEvent):
    """A file is written. `call` is the callable; `collective` where all ranks must call it (a sharded save);
    `checkpoint` where it holds weights."""

    call: str
    collective: bool = False
    waits: bool = False
    """The ranks wait for each other in it."""
    checkpoint: bool = True
    states: tuple[tuple[str, StateDict | Module | Wrapper], ...] = ()
    """The state dicts and modules that are written, each with its entry in a dictionary, or an empty text."""
    states_when: tuple[Condition, ...] = ()
    """On which paths each of them is the one, where there are several for an entry."""
    on_cpu: bool = False
    """All of it lies on the CPU, where `torch.load` puts it again."""
    copied: bool = False
    """It was brought there to be written."""
    joins: bool = False
    """One file is made of parts that were written before."""
    whole: bool = False
    """No checkpoint, but written as one: two processes at a time leave a file that nobody can read."""
    shards: bool = False
    """What it writes is the part of this rank alone: the state of a model that was sharded in place, not gathered."""
    emptied: bool = False
    """ZeRO keeps the parameters elsewhere, and what is written in their place is empty."""
    adds: bool = False
    """It stands behind what is in the file already."""
    by_logger: bool = False
    """It is the first line that all ranks log there."""
    path_first: bool = False
    """Its first argument is the path, which another can take the place of."""
    told_who: bool = False
    """It is told which rank is to write, or writes by a function that knows: `save_function=accelerator.save`."""

    @property
    def by_an_object(self) -> bool:
        """A method writes it, which may know the ranks: `trainer.save_model()`."""
        return self.call.startswith(".") or self.call == "save_pretrained"


@dataclass(frozen=True, kw_only=True)
class ShardedState(Event):
    """A state is asked for of which each rank holds a part. `gathers` where all ranks must call it, since it brings
    the parts together."""

    call: str
    owner: Module | Wrapper | Optimizer | Tensor | Unknown
    gathers: bool


@dataclass(frozen=True, kw_only=True)
class Load(FileEvent):
    """`torch.load` and its kind."""

    call: str
    names_device: bool = False
    """It says where to: `map_location=None` is what the call does without it."""
    onto: Devices | None = None
    """That, where it is a device and no function."""
    result: Unknown | None = None


@dataclass(frozen=True, kw_only=True)
class LoadState(Event):
    """`load_state_dict(state)`."""

    target: Module | Wrapper | Optimizer | Scheduler | Scaler | Unknown
    taken: tuple[StateDict, ...] = ()
    """The states that it may be which the program itself has asked for."""
    strict: bool | None = True
    """True, False, or None where that is not known."""
    loaded: Unknown | None = None
    """The result of the `Load` that it is, or is an entry of."""
    entry: str | None = None
    """Which entry: `model` for `checkpoint["model"]`, an empty text for the whole, None where it was changed; of what
    is `taken`, from which entry something was put into it."""
    as_wrapper: bool = False
    """A model that keeps another one under the name `module` itself, as a copy that averages weights does."""


EXISTENCE = functions("IsThere")
"""Who asks whether a file is there: with its path, the key of the answer."""


@dataclass(frozen=True, kw_only=True)
class ReadFile(FileEvent):
    """A file is read, or a folder listed: `call` says by what."""

    call: str


@dataclass(frozen=True, kw_only=True)
class ChangeFolder(FileEvent):
    """A folder is made, or removed with all that is in it (`removes`), as a file may be. `tolerated` where it is no
    error that another process has done so before."""

    call: str
    tolerated: bool = False
    removes: bool = False

    @property
    def may_race(self) -> bool:
        """It is an error where another process was faster, and nothing lets them in one by one."""
        return not self.tolerated and not self.one_rank_at_a_time


@dataclass(frozen=True, kw_only=True)
class Download(FileEvent):
    """Files are fetched to `path`, without a lock, where they are not there yet. `call` is the data set or function."""

    call: str


def lacking(when: Condition) -> bool:
    """The program comes by only where it has found that some file is not there, or lacks something."""
    return any(map(_not_there, when))


def asked_for(literal: Literal) -> Values | None:
    """The path of which this asks whether it is there; None of any other question."""
    match literal.atom.key:
        case IsTrue(Unknown(term=CallResult(str(question), (ValueSet() as paths, *_)))) if question in EXISTENCE:
            return paths
    return None


def _not_there(literal: Literal) -> set[object]:
    """The paths that this answer says are not there."""
    paths = asked_for(literal)
    if paths is not None:
        return set() if literal.holds else set(paths)
    match literal.atom.key:
        # `if not path.exists() or load(path).get(key) is None`
        case AnyOf(reasons) if literal.holds:
            return set().union(*map(_not_there, reasons))
    return set()
