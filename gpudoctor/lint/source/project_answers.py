"""What may be asked of the project that a program belongs to: names in its code, and how it says to start it."""

from __future__ import annotations

from gpudoctor.record import dataclass


@dataclass(frozen=True)
class UsedNames:
    """The names that some code uses."""

    uses: frozenset[str] = frozenset()
    """All but those of arguments, and texts that may be one."""
    functions: frozenset[str] = frozenset()
    """Of these, names that may mean a function: not what is asked of an object."""
    attributes: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()
    given: frozenset[str] = frozenset()
    """Of arguments, and all texts without blanks."""


class Starts:
    """The command lines that start a program; of a project that has none."""

    def launchers(self) -> frozenset[str]:
        """The launchers in the command lines that name the program, or in all where none does."""
        return frozenset()

    def launchers_naming_it(self) -> frozenset[str]:
        """The launchers in the command lines that name it."""
        return frozenset()

    def starts_alone(self) -> bool:
        """It is started by `python` alone, while a launcher starts other programs of the project."""
        return False
