"""Functions that take the place of others, so that calls are seen."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
_UNCOUNTED = " (importlib._bootstrap)"
"""`warnings.warn` passes over calls in files of such a name when it counts to its `stacklevel`: a warning that is meant
for the program shows the line of the program, and is filtered and told once by that."""


def standing_for(called: Callable[..., Any]) -> Callable[[F], F]:
    """Decorates the function that takes the place of `called`: it looks like that, and no warning stops at it."""

    def uncounted(function: Any) -> Any:
        code = function.__code__
        function.__code__ = code.replace(co_filename=f"{code.co_filename}{_UNCOUNTED}")
        return functools.wraps(called)(function)

    return uncounted
