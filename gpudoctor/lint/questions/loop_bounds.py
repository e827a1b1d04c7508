"""What loops go over, and how often, as far as their bounds say so."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.container import Enumerated, Range
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import Attribute, Compares, Item, MethodResult
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values, int_of
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.flow.condition import Atom, Divergence, Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.program import Program


def chosen_to_repeat(loop: Loop) -> list[Literal]:
    """That it comes to a second round, where the user says how many there are: `for epoch in range(args.epochs)`."""
    ranges = (each for each in loop.source or () if isinstance(each, Range))
    counts = (each.stop.single for each in ranges if each.start.single == Const(0))
    return [
        Literal(Atom(Compares(">", count, Const(1)), text=f"{count.label} > 1"), True)
        for count in counts
        if isinstance(count, Unknown)
    ]


def usual_rounds(program: Program, loop: Loop) -> int | None:
    """How many it has where the user leaves every option out; None where that is not known."""
    ranges = [each for each in loop.source or () if isinstance(each, Range)]
    if loop.times is not None or len(ranges) != 1 or ranges[0].start.single != Const(0):
        return loop.times
    count = ranges[0].stop.single
    return int_of(program.left_out(count)) if count is not None else None


def parting_bound(loop: Loop) -> Literal | None:
    """The test of the rank by which its bounds are this or that; none where a rank may have what the others have."""
    ranges = [value for value in loop.source or () if isinstance(value, Range)]
    for bound in (each for value in ranges for each in (value.start, value.stop)):
        asked = [test for binding in bound.bindings for test in binding.condition.depending_on(Divergence.RANK)]
        sure = [test for test in asked if not test.atom.divergence & Divergence.UNREAD]
        for test in sorted(sure, key=lambda each: not each.holds):
            here = {each.value for each in bound.bindings if test in each.condition.literals}
            elsewhere = {each.value for each in bound.bindings if test.negated() in each.condition.literals}
            if elsewhere and not here <= elsewhere:
                return test
    return None


def goes_by_size(loop: Loop) -> bool:
    """`for z in range(0, image.shape[2], 96)`: as many rounds as a sample of this rank is large."""
    return any(_is_size(each) for bound in _bounds(loop.source) for each in provenance_of(bound))


def _bounds(source: Values | None) -> Iterator[object]:
    for value in source or ():
        if isinstance(value, Range):
            yield from value.stop
        elif isinstance(value, Enumerated):
            for items in value.items:
                yield from _bounds(items)


def _is_size(value: object) -> bool:
    """How large one sample is; how many there are in a batch is the same on all ranks."""
    match value:
        case Unknown(Item(Unknown(Attribute(Tensor() as of, "shape")), Const(int() as index))):
            return index != 0 and of.is_own_batch
        case Unknown(MethodResult(Tensor() as of, "size", (ValueSet(single=Const(value=index)), *_))):
            return index != 0 and of.is_own_batch
    return False


def pairs_with_itself(loop: Loop, loader: Value) -> bool:
    """It goes over what zips the loader with itself: `enumerate(tqdm(zip(a, a)))`."""
    # `zip(a if b else c, c if b else a)`: on each path another one of the two.
    return any(sum(each.single == loader for each in zipped.items) > 1 for zipped in _zipped(loop.source))


def _zipped(values: Values | None) -> Iterator[Enumerated]:
    for value in values or ():
        if isinstance(value, Enumerated):
            if value.kind == "zip":
                yield value
            for each in value.items:
                yield from _zipped(each)
