"""Errors of ours beside a job that is watched. They are told in its report, and cost neither the job nor the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpudoctor.errors import internal_error

T = TypeVar("T")


class Faults:
    """Collects what went wrong, each once."""

    def __init__(self) -> None:
        self._told: dict[str, None] = {}

    def tried(self, what: str, work: Callable[[], T], otherwise: T) -> T:
        """What `work` gives, or `otherwise` where it fails; `what` says what it was for."""
        try:
            return work()
        except Exception as error:
            self._told[" ".join(str(internal_error(what, error)).split())] = None
            return otherwise

    @property
    def told(self) -> tuple[str, ...]:
        """All of them, in the order in which they came."""
        return tuple(self._told)
