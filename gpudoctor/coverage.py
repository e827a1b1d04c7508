"""What was followed of a program and what was not: so that silence of a rule can be told from a clean program.

A *program* is one entry file in one world. It is followed to its training where a backward pass or a step of an
optimizer was seen in it.
"""

from __future__ import annotations

import enum

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass


class Followed(enum.Enum):
    """How much of a program was followed."""

    WHOLE = "whole"
    """To its end, and no rule had to stand back."""
    PARTLY = "partly"
    """Its training was seen; a limit, a framework or code that could not be read kept some rules from judging."""
    NOT = "not"
    """It trains, as far as can be seen, and its training was not reached."""


class Cause(enum.Enum):
    """Why rules were silent."""

    LIMIT = "limit"
    """The execution on paper met a limit."""
    ENDED = "ended"
    """All paths end in an error before the training."""
    FRAMEWORK = "framework"
    """A framework does the work that the rules are about."""
    UNREAD = "unread"
    """Objects go into code that could not be read."""
    UNKNOWN_MODEL = "unknown model"
    """Gradients are asked for, and no call of a model was seen that they may come from, or one that was not followed
    into the model."""
    NOT_CALLED = "not called"
    """There is training in the files of the program, and no call that was followed leads to it."""
    NO_ENTRY = "no entry"
    """The file starts nothing: its functions were read one by one, with unknown arguments."""


@dataclass(frozen=True)
class Silence:
    """Rules that could not judge a program, and where the cause of that begins.

    `what` names it: the limit, the statement that ends all paths, the framework, the code that was not read, the call
    that asks for gradients; `about` is what was handed to code that was not read, the call of what a setting has
    chosen, the option with which a framework takes charge, the model whose `forward` was not followed, the error where
    the statement that ends all paths does not say it, or the wrapper that no program makes. `missed` says that the
    training was not reached on account of it, `beside` that paths which do not train live on.
    """

    cause: Cause
    rules: tuple[str, ...]
    what: str
    at: Location | None = None
    missed: bool = False
    about: str = ""
    beside: bool = False

    @property
    def because(self) -> str:
        """Why, as a clause that goes on from the name of the program."""
        return self.told_in("")

    def told_in(self, path: str) -> str:
        """The same where the file at `path` is named already."""
        at = f" at {_place(self.at, path)}" if self.at is not None else ""
        match self.cause:
            case Cause.LIMIT:
                return f"stopped{at} {self.what}{', before the training' if self.missed else ''}"
            case Cause.ENDED if self.beside:
                return f"the way to the training ends{at}, in {self.about or f'`{self.what}`'}"
            case Cause.ENDED:
                where = "before the training" if self.missed else "after the first training step"
                how = f"in {self.about}" if self.about else f"{where}: `{self.what}`"
                return f"every path that was followed ends{at}, {how}"
            case Cause.FRAMEWORK if self.missed:
                return f"{self.what} runs the training{at}"
            case Cause.FRAMEWORK:
                return f"{self.what} takes charge{at}{f', {self.about}' if self.about else ''}"
            case Cause.UNREAD if self.missed and not self.about:
                return f"no training was seen: the optimizer goes into `{self.what}`{at}, which was not read"
            case Cause.UNREAD if self.missed:
                by = f"`{self.what}`" if self.what else "a setting"
                return f"the training was not reached: {by} chooses at run time what `{self.about}` calls{at}"
            case Cause.UNREAD:
                return f"{f'`{self.about}`' if self.about else 'it'} goes into `{self.what}`{at}, which was not read"
            case Cause.UNKNOWN_MODEL if self.about:
                return f"the `forward` of `{self.about}`, called{at}, was not followed"
            case Cause.UNKNOWN_MODEL:
                return f"the training{at} was followed, but the model that it trains is not known"
            case Cause.NOT_CALLED:
                return f"no call that was followed leads to the training{at}: `{self.what}`"
        if self.about:
            return f"no program calls what wraps a model in `{self.about}`{at}"
        if self.missed and not self.what:
            return f"no program calls what leads to the training{at}"
        return f"no program calls the training{at}: `{self.what}`" if self.what else "it starts no program itself"


def _place(at: Location, path: str) -> str:
    if at.path != path:
        return at.start
    return f"cell {at.cell.number}, line {at.line}" if at.cell else f"line {at.line}"


@dataclass(frozen=True)
class Ending:
    """What ended the execution of a program before its end: a limit, or an error on all paths."""

    reason: str
    at: Location | None = None


@dataclass(frozen=True)
class Coverage:
    """What was followed of one program in one world; `world` is empty for a file that starts nothing."""

    path: str
    world: str
    followed: Followed
    training_loops: int = 0
    ended_by: Ending | None = None
    silent_for: tuple[Silence, ...] = ()
    trains_at: tuple[Location, ...] = ()
    """The backward passes that were seen: what one program does not reach another one may."""
    idle: tuple[Silence, ...] = ()
    """Other files that were read for it and train, in functions that it has not called."""
    weight: int = 0
    """How much hangs on it: 3 where ranks are prepared, 2 for any other program that trains, 1 for a file that trains
    and starts nothing, and less than nothing for one of tests."""
    awaits: tuple[str, ...] = ()
    """The files that train where it was not reached: what it would come to, were it followed further."""
    started: str = ""
    """How it is started, where launch files start it in several ways: "`run.sh` starts 8 processes"."""
