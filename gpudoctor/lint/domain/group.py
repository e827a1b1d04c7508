"""Process groups, and the handles of collectives that run in the background."""

from __future__ import annotations

from gpudoctor.lint.domain.value import Allocated, Anonymous, Unknown, Value, Values
from gpudoctor.record import dataclass


@dataclass(frozen=True, eq=False, repr=False)
class Group(Allocated):
    """A process group other than the default one."""

    whole: bool = False
    """All processes are in it, as in one that is made for another backend."""
    alone: bool = False
    """One process is in it."""


@dataclass(frozen=True)
class DefaultGroup(Value):
    """The group of all processes, by its name; who gives none means it, too."""

    is_object = True


def has_all_processes(given: Values | None) -> bool:
    """Whatever group is given, each process is in it."""
    return given is None or given.all(
        lambda each: each.is_none or isinstance(each, DefaultGroup) or (isinstance(each, Group) and each.whole)
    )


def group_of(given: Values | None) -> Group | DefaultGroup | Unknown:
    """The group that is meant where this is given."""
    if given is None or given.all(lambda each: each.is_none or isinstance(each, DefaultGroup)):
        return DefaultGroup()
    only = given.single
    return only if isinstance(only, (Group, Unknown)) else Unknown(Anonymous("group", given), "a group")


@dataclass(frozen=True, eq=False, repr=False)
class Work(Allocated):
    """What a collective with `async_op=True` returns."""

    subject: Value | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Cluster(Allocated):
    """A queue of a cluster that starts a function in each process of a job, or what that job knows of itself."""

    class_name: str


@dataclass(frozen=True, eq=False, repr=False)
class ManagedObject(Allocated):
    """An object of a framework that owns wrapping, placement, sharding or saving: an Accelerator, a Trainer."""

    framework: str
    made_by: str = ""
    class_name: str = ""
    """The dotted name of its class, whose stub says what it has and does."""
