"""Calls that were followed before with the same arguments, and are done again from memory.

A network is made of dozens of alike blocks, each by a constructor that takes as many statements as the first one. What
such a call has read, written and returned is remembered, and where a later one would read the same, its writes are
repeated with everything that it has made made anew: the layers of the tenth block are its own. That costs one
statement for each object. What it has logged is logged again, on the way that leads through the new call.

`call_watch.py` notes what a call does, `call_repetition.py` does it again, and `likeness.py` says what stands in the
place of what.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.traced_number import is_number
from gpudoctor.lint.domain.value import Composed, Unknown, Value, Values
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interp.call_repetition import Repetition
from gpudoctor.lint.interp.call_watch import CallWatch
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.function_traits import CallMemory
from gpudoctor.lint.interp.likeness import EXCHANGED, Likeness


def repeated(
    m: Evaluator, memory: CallMemory, arguments: Arguments, at: Location, made: Value | None = None
) -> Values | None:
    """The result of a call where an earlier one has done the same; None where it has to be followed.

    Where it is to construct an object, that is not among the arguments, and nothing is known of it yet.
    """
    if not memory.calls or not _may_repeat(m):
        return None
    kinds = _kinds(m, arguments)
    for past in memory.calls.get(kinds, ()):
        likeness = Likeness(m)
        if (m.listener is None or past.heard is not None) and likeness.found(past, arguments):
            memory.repeated.add(kinds)
            m.tick()
            return Repetition(m, past, made, likeness, at).done()
    return None


def noted(
    m: Evaluator,
    memory: CallMemory,
    arguments: Arguments,
    run: Callable[[Arguments], Values],
    made: Value | None = None,
) -> Values:
    """The result of a call that is followed, which is noted where it may pay."""
    if not _may_repeat(m) or not memory.pays(kinds := _kinds(m, arguments)):
        return run(arguments)
    memory.noted[kinds] = memory.noted.get(kinds, 0) + 1
    with CallWatch(m, made) as watch:
        given = watch.traced(arguments)
        result = run(given)
        done = watch.call(given, result)
    if done is not None:
        memory.calls.setdefault(kinds, []).append(done)
    return result


def _may_repeat(m: Evaluator) -> bool:
    """Who looks ahead so far and no further wants it to be done."""
    return not m.muted and m.look_ends is None


def _kinds(m: Evaluator, arguments: Arguments) -> tuple[Hashable, ...]:
    """What calls have in common of which one may be a repetition of the other."""
    named = tuple([(name, _kinds_of(each)) for name, each in arguments.keywords.items()])
    # Where only some ranks may be, it is noted who leaves early.
    apart = m.path.divergence & (Divergence.RANK | Divergence.LOCAL)
    return m.contexts, apart, tuple(map(_kinds_of, arguments.positional)), named


def _kinds_of(values: Values) -> Hashable:
    return tuple(map(_kind_of, values))


def _kind_of(value: Value) -> Hashable:
    if is_number(value):
        return float
    if isinstance(value, TupleOf):
        return TupleOf, len(value.items)
    if isinstance(value, Composed):
        return type(value), _kind_of_part(value.parts)
    exchanged = isinstance(value, Unknown) or type(value) in EXCHANGED
    return type(value).__name__ if exchanged else value


def _kind_of_part(part: Hashable) -> Hashable:
    if isinstance(part, tuple):
        return tuple(map(_kind_of_part, part))
    return _kind_of(part) if isinstance(part, Value) else _kinds_of(part) if isinstance(part, ValueSet) else part
