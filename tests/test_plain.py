"""Records as plain data and back: what comes back is what was there, or the first place where it is not."""

import enum
import json
import math
from collections.abc import Mapping

import pytest

from gpudoctor.plain import PlainError, Reader, from_plain, plain
from gpudoctor.probe.inventory.field import Absence, Field, absent, known
from gpudoctor.record import dataclass, field, replace


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.0


@dataclass(frozen=True)
class Shape:
    name: str
    points: tuple[Point, ...] = ()
    colour: Colour = Colour.RED
    centre: Point | None = None
    sizes: Mapping[int, tuple[str, bool]] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    figure: float | str | list[str] | None = None
    weight: Field[int] = absent("not weighed")


WHOLE = Shape(
    "a",
    (Point(1, 2.5), Point(2)),
    Colour.BLUE,
    Point(0),
    {3: ("b", True)},
    figure=["c"],
    weight=known(7),
)


@pytest.mark.parametrize(
    "shape", [Shape("a"), WHOLE, replace(WHOLE, figure=2.0), replace(WHOLE, weight=absent("lost", Absence.LOST))]
)
def test_there_and_back(shape: Shape) -> None:
    assert from_plain(Shape, json.loads(json.dumps(plain(replace(shape, tags=()))))) == shape


def test_what_a_later_version_has_added_is_passed_over() -> None:
    assert from_plain(Shape, {"name": "a", "corners": 3}) == Shape("a")


def test_no_number_is_null() -> None:
    assert plain(Point(1, math.inf)) == {"x": 1, "y": None}
    assert math.isnan(from_plain(Point, {"x": 1, "y": None}).y)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({}, "the document lacks 'name'"),
        ([], "the document is a list and not an object"),
        ("a", "the document is 'a' and not an object"),
        ({"name": 1}, "name is 1 and not a text"),
        ({"name": "a", "points": [{"x": 1}, {"x": 2}, {"x": "3"}]}, "points[2].x is '3' and not a whole number"),
        ({"name": "a", "points": [{"x": 1}, {"y": 2}]}, "points[1] lacks 'x'"),
        ({"name": "a", "points": [{"x": True}]}, "points[0].x is True and not a whole number"),
        ({"name": "a", "points": {}}, "points is an object and not a list"),
        ({"name": "a", "centre": {"x": 1, "y": "far"}}, "centre.y is 'far' and not a number"),
        ({"name": "a", "colour": "green"}, "colour is 'green', and none of red, blue"),
        ({"name": "a", "colour": []}, "colour is a list, and none of red, blue"),
        ({"name": "a", "sizes": {"1": ["b", 0]}}, "sizes.1[1] is 0 and not true or false"),
        ({"name": "a", "sizes": {"1": ["b"]}}, "sizes.1 has 1 entries instead of 2"),
        ({"name": "a", "sizes": {"one": ["b", True]}}, "sizes.one stands where a whole number belongs"),
        ({"name": "a", "figure": {}}, "figure is an object"),
        ({"name": "a", "figure": ["b", 1]}, "figure[1] is 1 and not a text"),
        ({"name": "a", "weight": "heavy"}, "weight is 'heavy' and not a whole number"),
        ({"name": "a", "weight": {"not_available": "lost", "kind": "sold"}}, "weight.kind is 'sold', and none of"),
    ],
)
def test_the_first_wrong_place_is_named(data: object, complaint: str) -> None:
    with pytest.raises(PlainError) as wrong:
        from_plain(Shape, data)
    assert str(wrong.value).startswith(complaint)


def test_a_reader_may_know_a_type_by_another_form() -> None:
    reader = Reader({Point: lambda found: Point(int(found))})
    assert reader.read(Shape, {"name": "a", "points": ["1", "2"]}) == Shape("a", (Point(1), Point(2)))
    with pytest.raises(PlainError):
        from_plain(Shape, {"name": "a", "points": ["1", "2"]})
