"""Records behave as data classes do, from the first object to those of a compiled constructor."""

import dataclasses
from typing import Any

import pytest

from gpudoctor import record

MANY = 20


def _classes(module: Any) -> dict[str, Any]:
    """The same classes, of records and of `dataclasses`."""

    @module.dataclass(frozen=True)
    class Plain:
        a: int
        b: str = "b"

    @module.dataclass(frozen=True)
    class Below(Plain):
        c: list[int] = module.field(default_factory=list)

    @module.dataclass(kw_only=True)
    class Named:
        a: int
        b: int = 2

    @module.dataclass
    class Told:
        a: int
        b: int = 0

        def __post_init__(self) -> None:
            self.b += self.a

    @module.dataclass(frozen=True, slots=True)
    class Slotted:
        a: int
        b: tuple[int, ...] = ()

    return {each.__name__: each for each in (Plain, Below, Named, Told, Slotted)}


@pytest.mark.parametrize("args", [(), (1,), (1, 2), (1, 2, [3]), (1, 2, [3], 4)])
@pytest.mark.parametrize("keywords", [{}, {"a": 5}, {"b": 6}, {"a": 5, "b": 6}, {"c": [7]}, {"nobody": 8}])
@pytest.mark.parametrize("name", ["Plain", "Below", "Named", "Told", "Slotted"])
def test_all_objects_of_a_class_are_made_alike(
    name: str, args: tuple[object, ...], keywords: dict[str, object]
) -> None:
    ours, known = _classes(record)[name], _classes(dataclasses)[name]
    expected = _made(known, args, keywords)
    assert [_made(ours, args, keywords) for _ in range(MANY)] == [expected] * MANY


def _made(cls: Any, args: tuple[object, ...], keywords: dict[str, object]) -> object:
    try:
        made = cls(*args, **keywords)
    except TypeError as error:
        # The qualified names differ, and Python numbers what is missing.
        return str(error).rpartition("__init__() ")[2]
    return {name: getattr(made, name) for name in "abc" if hasattr(made, name)}


def test_no_two_objects_share_what_a_field_makes() -> None:
    cls = _classes(record)["Below"]
    lists = [cls(1).c for _ in range(MANY)]
    assert len({id(each) for each in lists}) == MANY


def test_objects_from_before_and_after_are_equal() -> None:
    cls = _classes(record)["Below"]
    made = [cls(1, c=()) for _ in range(MANY)]
    assert len(set(made)) == 1
