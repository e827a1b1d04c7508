"""Events about the analysis itself: a framework takes charge, code is not read, knowledge ends, or the program does."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.value import Allocated, Unknown, Value, Values, constant_of, single_of
from gpudoctor.lint.events.event_context import Event
from gpudoctor.record import dataclass


@dataclass(frozen=True, kw_only=True)
class UseManaged(Event):
    """A framework takes charge: `framework` is its name, `call` what was called, `several` whether that only makes
    sense with several processes, `shares_data` whether it may deal out the data among the ranks."""

    framework: str
    call: str
    several: bool = False
    shares_data: bool = True
    trains: bool = False
    """Its name says that it runs the training."""
    shares_streams: bool = True
    """Whether it may deal out what an `IterableDataset` yields, too."""
    one_by_one: bool = False
    """The program hands it models, optimizers and loaders, and trains in a loop of its own."""
    engine: bool = False
    """It returns an engine around one model, which averages the gradients, and evaluates nothing by itself."""
    averages: bool = False
    """It averages the gradients of the ranks."""
    made: ManagedObject | None = None
    """What the program asks the framework by from here on."""
    alone: bool = False
    """It was told to use one process: `Trainer(devices=1)`."""
    given: Arguments = NO_ARGUMENTS
    """The settings that it was called with, by name where a stub says which is which."""
    otherwise: frozenset[str] = frozenset()
    """What the settings have it do in another way: fields of the stubs' word for it, as `accumulating`."""
    config: Arguments | None = None
    """The configuration that it was handed, flat: `zero_optimization.stage`. None where it is not all known."""
    config_path: str = ""
    """The file that says it, without links; empty where the program itself does."""
    config_launched: bool = False
    """Its launcher hands over a file with it."""

    def setting(self, name: str) -> Values | None:
        """A setting that was given by name."""
        return self.given.keywords.get(name)

    def told(self, name: str) -> object:
        """The constant that such a setting surely is; None where it was left out or is not known."""
        return constant_of(single_of(self.given.keywords.get(name)))

    def configured(self, name: str) -> object:
        """The constant that an entry of the configuration surely is; None where it is not there, or not known."""
        return constant_of(self.entry(name))

    def entry(self, name: str) -> Value | None:
        """What an entry of the configuration surely is."""
        return single_of(self.config.keywords.get(name)) if self.config is not None else None


@dataclass(frozen=True, kw_only=True)
class Prepare(Event):
    """A framework's `managed` object takes one object under its care, and gives back what it has `made` of it: a model
    wrapped, a loader that deals out its data, anything else as it was. One event for each object that is `given`."""

    managed: ManagedObject
    call: str
    given: Allocated | Unknown
    made: Allocated | Unknown
    opaque: bool = False
    """Others were handed over that could not be followed."""
    told: frozenset[str] = frozenset()
    """By which names something else was said."""
    by_itself: bool = False
    """The program has not asked for it here: a `Trainer` takes what it needs when it trains."""


SILENT_SAMPLER = "a sampler that tells no epoch"
"""A sampler of the project that keeps another one and never asks for its `set_epoch`: so an `Escape` may be `into`."""


@dataclass(frozen=True, kw_only=True)
class Escape(Event):
    """Code that could not be read is called (`into`), and given objects that rules ask about, or none."""

    into: str
    values: tuple[Allocated, ...] = ()
    may_begin_group: bool = False
    """It gets the number of processes, as what sets up the process group does, or its name says that it does."""
    may_choose_gpu: bool = False
    """That, or it gets a rank or whole settings, or its name says that it has to do with GPUs, or nothing says what it
    is."""
    trains: bool = False
    """Its name says that it runs a training."""
    sets_seed: bool = False
    """Its name says that it has to do with seeds."""
    of_no_library: bool = False
    """What is called is no library's, by all that is known: a setting or a name that nobody knows has chosen it."""

    @property
    def given_model(self) -> bool:
        """A model is among these objects."""
        return any(value.is_model for value in self.values)


@dataclass(frozen=True, kw_only=True)
class LoopRun(Event):
    """The loop of a framework was followed in its place: it calls the function of the program that stands at `step`."""

    step: Location


@dataclass(frozen=True, kw_only=True)
class OwnOptimization(Event):
    """From here to the end of the framework's loop, a `model` says itself when to propagate back and to step."""

    model: Module | Wrapper


@dataclass(frozen=True, kw_only=True)
class Imprecision(Event):
    """Knowledge ended here, and why."""

    why: str
    limit: bool = False
    unread: bool = False
    """By a call of something unknown. What that gets at is told by an `Escape`."""


@dataclass(frozen=True, kw_only=True)
class ForwardSkipped(Event):
    """A model of the project is called, and its `forward` was not followed: the program had grown too long by then."""

    module: Module


@dataclass(frozen=True, kw_only=True)
class Guess(Event):
    """What was made here is taken for something (`means`: `an optimizer`) on account of its name alone."""

    name: str
    means: str


@dataclass(frozen=True)
class Stop:
    """A statement or a call, as it is written, that ended a program or was not reached by it."""

    what: str
    at: Location
    error: str = ""
    """Python's own exception that is raised there; empty where it is another one, or none."""
    why: str = ""
    """Why it is raised, as a clause that goes on from `what`; empty where the statement says it."""

    @property
    def error_told(self) -> str:
        """The error, and what raises it; empty where the statement says it."""
        return f"{self.error}: `{self.what}` {self.why}" if self.why else ""

    @property
    def told(self) -> str:
        """What ended the program, for people."""
        return self.error_told or self.what


@dataclass(frozen=True)
class Chosen(Stop):
    """A call of what a setting has chosen, and the library callable that makes it, empty where that is not known."""

    by: str = ""


@dataclass(frozen=True)
class NotReached:
    """Where a program trains, as its files are written, and why it was not seen to come there."""

    where: tuple[Stop, ...] = ()
    chosen: Chosen | None = None
    """A call that may lead there, of what a setting has chosen."""
    end: Stop | None = None
    """The error in which a function ends that may lead there, on all its paths."""
