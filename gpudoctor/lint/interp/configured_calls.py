"""Calls of what a setting has chosen: `instantiate(cfg.trainer).train()`."""

from __future__ import annotations

import ast

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Values
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class ChosenCall:
    """A call that was not followed, because a setting chooses what is called: a method `name` of what the library
    callable `by` returned, each empty where that is not known; `given` are its arguments."""

    node: ast.Call
    place: Location
    name: str
    by: str
    given: tuple[Values, ...]
