"""The arguments of a call, as far as they are known."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from gpudoctor.lint.domain.value import Value, Values
from gpudoctor.record import dataclass, field


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a call hands over: by position, by name, and what may be among them besides."""

    positional: tuple[Values, ...] = ()
    keywords: dict[str, Values] = field(default_factory=dict)
    rest: tuple[Values, ...] | None = None
    """What `*args` and `**kwargs` hold that could not be followed, without a name or a position; None where all
    arguments are known."""

    @property
    def open_ended(self) -> bool:
        """An argument may be there that is not seen."""
        return self.rest is not None

    @property
    def key(self) -> Hashable:
        """What calls with the same known arguments have in common."""
        return self.positional, tuple(self.keywords.items())

    def __iter__(self) -> Iterator[Values]:
        """The known arguments, by position, then by name."""
        yield from self.positional
        yield from self.keywords.values()

    def values(self) -> list[Value]:
        """Every value of every known argument."""
        found = [binding.value for values in self.positional for binding in values.bindings]
        if self.keywords:
            found += [binding.value for values in self.keywords.values() for binding in values.bindings]
        return found

    def behind(self, *first: Values) -> Arguments:
        """The same with others in front, as the receiver of a method."""
        return Arguments((*first, *self.positional), self.keywords, self.rest)

    def without_first(self) -> Arguments:
        """The same without the first, as the receiver of `Base.__init__(self, ...)`."""
        return Arguments(self.positional[1:], self.keywords, self.rest)


NO_ARGUMENTS = Arguments()
