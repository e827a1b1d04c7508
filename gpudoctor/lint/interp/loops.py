"""Loops: what each round gets, and how often the body is followed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import reduce

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import NO, ContainerState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS
from gpudoctor.lint.domain.container import Enumerated, ListOf, Range, TupleOf
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.function import Generator
from gpudoctor.lint.domain.traced_number import number_of
from gpudoctor.lint.domain.value import (
    Allocated,
    Anonymous,
    Const,
    Unknown,
    Value,
    Values,
    int_of,
    of_kinds,
    singleton,
    text_of,
)
from gpudoctor.lint.events.collective import Discard
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.knowledge import Prepare
from gpudoctor.lint.events.model import ModeChange, Wrap
from gpudoctor.lint.events.placement import DeviceUsed, Move
from gpudoctor.lint.events.process import ArgumentDeclared, SettingRead
from gpudoctor.lint.events.reporting import MetricShown
from gpudoctor.lint.flow.condition import ALWAYS, Condition, Divergence, Literal
from gpudoctor.lint.flow.valueset import Binding, ValueSet, union
from gpudoctor.lint.interface.contents import begin_iteration, find_method, is_grown, known_items
from gpudoctor.lint.interp import truthiness
from gpudoctor.lint.interp.assignment import assign
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.generators import generator_of, run_over_generator
from gpudoctor.lint.interp.items import items_of
from gpudoctor.lint.interp.limits import MAX_HANDED_ON, MAX_ROUNDS, MAX_UNROLLED, SHORT_CALL
from gpudoctor.lint.interp.position import NONE_SET, NOTHING, OpenLoop, PathExit
from gpudoctor.lint.source.syntax_walk import statements

_LoopNode = ast.For | ast.AsyncFor | ast.While
_RoundStart = Callable[[], bool | Literal | None]
"""Begins a round, and says whether there is one, where a test decides that."""


def run_for(m: Evaluator, node: ast.For | ast.AsyncFor) -> None:
    """`for target in iterable`: items that are known one by one are followed so, others twice."""
    iterable = m.evaluate(node.iter)
    if m.unreachable:
        return
    # `for x, y in prefetch(loader)`: loop and generator take turns.
    over = generator_of(m, iterable, node.iter)
    if over is not None:
        run_over_generator(m, node, *over, _header(m, node))
        return
    iterable = begin_iteration(m, iterable, node.iter)
    if m.unreachable:
        return
    loaders = _loaders_of(iterable.restrict(m.path))
    for loader in loaders:
        _begin_iterator(m, loader, node.iter)
    if not loaders and _is_choice_of_few(m, here := iterable.restrict(m.path)):
        m.for_each_value(here, lambda each: _run_over(m, node, singleton(each), loaders), node.iter)
        return
    _run_over(m, node, iterable, loaders)


def _begin_iterator(m: Evaluator, loader: Binding[Loader], node: ast.expr) -> None:
    """What a loader of the project does before torch's own iterator begins, as to tell its sampler the epoch."""
    own = find_method(m, loader.value, "__iter__")
    if own is None:
        return
    with m.on_path(m.path.and_(_agreed(loader.condition))):
        begun = m.call(own, NO_ARGUMENTS, node).single
        if isinstance(begun, Generator):
            m.run_generator(begun, node)


def _is_choice_of_few(m: Evaluator, iterable: Values) -> bool:
    """One of several lists whose items are known, which are few together: each is gone over where it is the one."""
    known = [known_items(m, each) for each in iterable]
    return len(known) > 1 and None not in known and sum(map(len, filter(None, known))) <= MAX_UNROLLED


def _run_over(m: Evaluator, node: ast.For | ast.AsyncFor, iterable: Values, loaders: list[Binding[Loader]]) -> Values:
    known = known_items(m, iterable.single)
    # Batches of a loader are never known one by one, however few there are.
    many = known is not None and len(known) > MAX_UNROLLED and not _hands_on_entries(m, node, iterable, known)
    alike = known is None or many or bool(loaders)
    if known is not None and not alike and m.in_body:
        # A library that goes over what it was given: it calls one after the other, which is no loop of the program.
        for values in known:
            if not m.unreachable:
                assign(m, node.target, values)
                m.execute(node.body)
        return NONE_SET
    if known is not None and not alike:
        rounds = [_binder(m, node.target, values) for values in known]
        times: int | None = len(known)
    else:
        times = _times(iterable)
        rounds = [_item_binder(m, node, iterable, round_) for round_ in range(1 if times == 1 else 2)]
    if times == 0:
        m.execute(node.orelse)
        return NONE_SET
    unordered = _is_unordered(m, iterable.single)
    _FollowedLoop(m, node, loaders, times, alike, unordered, iterable).follow(rounds)
    return NONE_SET


_HANDING_ON = (ArgumentDeclared, DeviceUsed, Discard, MetricShown, ModeChange, Move, Prepare, SettingRead, Wrap)


def _hands_on_entries(m: Evaluator, node: ast.For | ast.AsyncFor, iterable: Values, known: Sequence[Values]) -> bool:
    """Entries of a dictionary, or names, each of which the body only puts elsewhere, declares as an option, shows, or
    makes ready: `for name, value in settings.items(): setattr(args, name, value)`, `for name in nets: nets[name] =
    DDP(nets[name])`."""
    if len(known) > MAX_HANDED_ON or len(statements(node)) > SHORT_CALL:
        return False
    for values in known:
        only = values.single
        names = only.items[0] if isinstance(only, TupleOf) and len(only.items) == 2 else values
        if not names.all(lambda each: text_of(each) is not None):
            return False
    place = m.place(node)
    opened = OpenLoop(Loop(m.allocation_site(place), place), m.store.depth, frame_depth=len(m.frames), source=iterable)
    with m.speculative(MAX_HANDED_ON) as run, m.in_round(opened):
        assign(m, node.target, known[0])
        m.execute(node.body)
    return run.whole and all(isinstance(each, _HANDING_ON) for each in run.events)


def _is_unordered(m: Evaluator, value: Value | None) -> bool:
    """It goes over a set, whose order each process has for itself."""
    if isinstance(value, Enumerated):
        return value.kind != "sorted" and any(_is_unordered(m, column.single) for column in value.items)
    return isinstance(value, ListOf) and m.flag(value, ContainerState.unordered) is not NO


def run_while(m: Evaluator, node: ast.While) -> None:
    """`while test`: the body is followed twice, unless the test is surely over before, and in a short loop further as
    long as it surely holds and nothing has left the loop: `while hasattr(model, "module"): model = model.module`."""
    holds = truthiness.ask(m, node.test)
    if holds is False and not m.unreachable:
        m.execute(node.orelse)
    if holds is False or m.unreachable:
        return
    if holds is True and m.listener is not None:
        m.listener.repeats_for_ever()

    def again() -> bool | Literal | None:
        test = truthiness.ask(m, node.test)
        # A test of the counter has another answer in each round.
        if isinstance(test, Literal) and not test.atom.divergence & Divergence.BATCH_INDEX:
            m.path = m.path.conjoined_with(test)
        return test

    if _counts_few(m, node):
        rounds = [again] * (MAX_UNROLLED + 1)
        with m.speculative(SHORT_CALL * MAX_UNROLLED) as run:
            ends = _FollowedLoop(m, node, [], None, alike=False).follow(rounds)
        if ends and run.whole and run.returned:
            _FollowedLoop(m, node, [], None, alike=False).follow(rounds)
            return
    _FollowedLoop(m, node, [], None, alike=True).follow([again, again], endless=isinstance(node.test, ast.Constant))


def _counts_few(m: Evaluator, node: ast.While) -> bool:
    """`while i < len(words)`, of which the body changes `i`, and both are numbers that are near to each other."""
    match node.test:
        case ast.Compare(ast.Name(name), [ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()], [limit]):
            stored = (each for each in ast.walk(node) if isinstance(each, ast.Name))
            if not any(each.id == name and isinstance(each.ctx, ast.Store) for each in stored):
                return False
            with m.speculative():
                begin, end = (int_of(m.evaluate(each).single) for each in (node.test.left, limit))
            return begin is not None and end is not None and abs(end - begin) <= MAX_UNROLLED
    return False


class _FollowedLoop:
    """A loop that is followed: what all of its rounds have in common, and the paths that leave it."""

    __slots__ = (
        "_alike", "_base", "_counted", "_depth", "_ends", "_entered", "_goes_on", "_identity", "_items", "_loaders",
        "_m", "_node", "_of_any_number", "_place", "_returned", "_source", "_times", "_took", "_unordered",
    )  # fmt: skip

    def __init__(
        self,
        m: Evaluator,
        node: _LoopNode,
        loaders: list[Binding[Loader]],
        times: int | None,
        alike: bool,
        unordered: bool = False,
        source: Values = NOTHING,
    ) -> None:
        self._m, self._node, self._loaders, self._times = m, node, loaders, times
        self._alike, self._unordered, self._source = alike, unordered, source
        self._base = m.path
        self._place = _header(m, node)
        self._identity = m.allocation_site(self._place)
        self._ends: list[PathExit] = []
        self._entered = len(m.log)
        self._items = frozenset(_objects_in(m, source))
        self._of_any_number = (alike and times != 1) or is_grown(m, source.single)
        self._counted: set[Hashable] = set()
        self._depth = 0
        self._goes_on: bool | Literal | None = None
        self._took = 0
        self._returned = len(m.frame.exits)

    def follow(self, rounds: list[_RoundStart], endless: bool = False) -> bool:
        """Each of the rounds in turn, then the `else`; nothing but `break` and `return` ends an `endless` loop. Tells
        whether there is surely no further round."""
        m, times = self._m, self._times
        # The one round of a loop that is repeated is none of its first ones: counters have counted.
        first = 1 if self._alike and _is_repeated(m, self._node) else 0
        rounds = rounds[first:] or rounds
        with m.store.delta() as outer:
            self._depth = m.store.depth
            # A third round, for what only the second has begun to count.
            extra = rounds[1:2] if times is None or times > 2 else []
            for index, bind in enumerate([*rounds, *extra], first):
                fresh = self._follow_once(index, bind, index == first)
                # What only a later round begins to count has not been seen at its end: one more round, no more.
                if m.unreachable or self._goes_on is False:
                    break
                if index == first + len(rounds) - 1 and not (fresh and index == 1):
                    break
            while index < MAX_ROUNDS and not m.unreachable and self._leads_out(endless):
                index += 1
                self._follow_once(index, bind, enters=False)
            if endless and self._is_left:
                m.unreachable = True
                self._leave_surely()
            if not m.unreachable:
                m.path = self._base
                m.execute(self._node.orelse)
            if not m.unreachable:
                self._ends.append(PathExit(outer, self._base))
        m.join(self._base, self._ends)
        if not m.unreachable:
            m.path = self._base
        return self._goes_on is False

    @property
    def _is_left(self) -> bool:
        """A path has left the loop that goes on behind it, or behind the call."""
        return bool(self._ends) or len(self._m.frame.exits) > self._returned

    def _leads_out(self, endless: bool) -> bool:
        """Nothing has left the loop, and another round may: one that costs little, since who waits here trains not."""
        if self._goes_on is not True or self._took >= SHORT_CALL or self._is_left:
            return False
        return not endless or any(isinstance(each, (ast.Return, ast.Break)) for each in statements(self._node))

    def _leave_surely(self) -> None:
        """What all ways out of an endless loop ask for holds at some time, unless it is of one rank."""
        leaving = self._m.frame.exits[self._returned :]
        if self._ends or not leaving:
            return
        common = reduce(Condition.intersection, (each.path for each in leaving)).difference(self._base)
        if not common.divergence & Divergence.RANK:
            for each in leaving:
                each.path = self._base.and_(each.path.difference(common))

    def _follow_once(self, index: int, bind: _RoundStart, enters: bool) -> set[Hashable]:
        """One round, and what it was the first to count."""
        m, loop = self._m, self._opened(index)
        with m.in_round(loop):
            # An epoch begins once for each time the loop is entered.
            if enters and self._loaders:
                self._begin_epoch(loop.event)
            begun, spent = m.clock, m.statements
            with m.store.delta() as written:
                self._goes_on = bind()
                if self._goes_on is not False:
                    m.execute(self._node.body)
                live = [] if m.unreachable else [PathExit(written, m.path)]
        self._took = m.statements - spent
        if loop.breaks:
            before_round = m.store.changes_since(self._depth - 1)
            # After a `break` the `else` of the loop is left out.
            self._ends.extend(PathExit({**before_round, **gone.writes}, gone.path) for gone in loop.breaks)
        m.unreachable = False
        # What the round has made has no earlier round, and what it leaves as something else is no counter.
        before = {
            key: m.read(key)
            for key, values in written.items()
            if m.age(key) < begun and (not live or values.any(_is_number) or _holds_entries(key))
        }
        # What was learnt about one round does not hold for the next.
        m.join(self._base, live + loop.continues)
        m.path = self._base
        # Of items that are known one by one each is followed, and what has counted them as well.
        if not self._alike and not self._of_any_number:
            return set()
        fresh = _forget_counters(m, before, self._identity) - self._counted
        self._counted |= fresh
        return fresh

    def _opened(self, index: int) -> OpenLoop:
        m, over = self._m, self._loaders[0].value if self._loaders else None
        event = Loop(
            self._identity, self._place, over, self._times, index, self._entered, m.frame.scope,
            self._unordered, self._items, of_kinds(self._source, Range, Enumerated, Unknown),
        )  # fmt: skip
        return OpenLoop(
            event, self._depth, frame_depth=len(m.frames), of_any_number=self._of_any_number, begun=m.clock,
            repeats=index > 0 and self._alike, source=self._source,
        )  # fmt: skip

    def _begin_epoch(self, loop: Loop) -> None:
        m, node = self._m, self._node
        for loader in self._loaders:
            # `loader = shared if args.several else whole`: each is gone over where it is the one. Where ranks
            # have different loaders, all of them are in this loop: none is alone here.
            with m.on_path(self._base.and_(_agreed(loader.condition))):
                m.emit(Iterate, at=m.place(node.iter), loader=loader.value, loop=loop)  # type: ignore[union-attr]


def _is_repeated(m: Evaluator, node: _LoopNode) -> bool:
    """A loop around this one is in its second round, and in its first this one was followed from here, twice.

    How a batch follows a batch was seen then. What is new is how it follows an epoch, and that takes one round.
    """
    key = id(node), m.calls
    if key in m.followed_loops and any(loop.repeats for loop in m.open_loops):
        return True
    m.followed_loops.add(key)
    return False


def _header(m: Evaluator, node: _LoopNode) -> Location:
    """Where the loop's first line is: a finding about the loop is not one about its body."""
    whole = m.place(node)
    last = m.place(node.test if isinstance(node, ast.While) else node.iter)
    return Location(whole.path, whole.line, whole.column, last.end_line, last.end_column)


def _forget_counters(m: Evaluator, before: dict[Hashable, Values | None], identity: Hashable) -> set[Hashable]:
    """A number that one round has changed is not known in the next one: it counts rounds."""
    found: set[Hashable] = set()
    for key, old in before.items():
        new = m.read(key)
        if old is None or new is None or new == old:
            continue
        if _holds_entries(key):
            found |= _forget_entries(m, key, old, new, identity)
        elif _counts(old, new):
            label = key[1] if isinstance(key, tuple) and isinstance(key[-1], str) else ""
            m.write(key, _counted(new, (key, identity), label))
            found.add(key)
    return found


def _counts(old: Values, new: Values) -> bool:
    """Where a round has changed a number: everywhere, or where it was one, beside what was loaded and is unknown."""
    if new.all(_is_number):
        return True
    counts = old.any(_is_number) and any(_is_number(value) and value not in old for value in new)
    return counts and new.all(lambda value: isinstance(value, Unknown) or _is_number(value))


def _holds_entries(key: Hashable) -> bool:
    return isinstance(key, tuple) and key[-1] is ContainerState.entries


def _forget_entries(m: Evaluator, key: Hashable, old: Values, new: Values, identity: Hashable) -> set[Hashable]:
    """The numbers of a dictionary that one round has changed, as `state["step"] += 1` does."""
    was = dict(_entries_in(old.single))
    changed = {
        name
        for each in new
        for name, held in _entries_in(each)
        if held != was.get(name, held) and was[name].any(_is_number) and _counts(was[name], held)
    }
    if not changed:
        return set()

    def forgotten(value: Value) -> Value:
        if not isinstance(value, TupleOf):
            return value
        items: list[Values] = []
        for name, held in _entries_in(value):
            label = text_of(name.single) or ""
            items += (name, _counted(held, (key, name, identity), label, new) if name in changed else held)
        return TupleOf(tuple(items))

    m.write(key, new.map(forgotten))
    return {(key, name) for name in changed}


def _entries_in(value: Value | None) -> Iterator[tuple[Values, Values]]:
    items = value.items if isinstance(value, TupleOf) else ()
    return zip(items[::2], items[1::2], strict=True)


def _counted(new: Values, key: Hashable, label: str, paths: Values = NOTHING) -> Values:
    """An unknown number in the place of those known; what is unknown already stays."""
    # Counters agree on all ranks as long as nothing local decides whether they count.
    divergence = Divergence.BATCH_INDEX
    for binding in (*new.bindings, *paths.bindings):
        divergence |= binding.condition.divergence
    counted = Unknown(Anonymous("counted", key), "changed in a loop", label, divergence)
    kept = [binding for binding in new.bindings if not _is_number(binding.value)]
    counts = [Binding[Value](counted, binding.condition) for binding in new.bindings if _is_number(binding.value)]
    return union([ValueSet(counts), ValueSet(kept)]) if kept else singleton(counted)


def _is_number(value: Value) -> bool:
    return isinstance(value, Const) and type(number_of(value)) in (int, float)


def _binder(m: Evaluator, target: ast.expr, values: Values) -> _RoundStart:
    return lambda: assign(m, target, values)


def _item_binder(m: Evaluator, node: ast.For | ast.AsyncFor, iterable: Values, round_: int) -> _RoundStart:
    def bind() -> None:
        values = items_of(m, iterable, node.iter)
        if isinstance(node.target, ast.Name):
            name = node.target.id
            # Readers know the counter of `for epoch in range(10)` by its name.
            values = values.map(lambda value: _called(value, name))
        assign(m, node.target, values)

    return bind


def _called(value: Value, name: str) -> Value:
    return value.read_as(name) if value.divergence & Divergence.BATCH_INDEX else value


def _loaders_of(iterable: Values, when: Condition = ALWAYS) -> list[Binding[Loader]]:
    """The loaders that a loop goes over, through `enumerate`, `zip`, `tqdm` and `iter`."""
    found: list[Binding[Loader]] = []
    for binding in iterable.bindings:
        value, under = binding.value, when.and_(binding.condition)
        if isinstance(value, Loader):
            found.append(Binding(value, under))
        elif isinstance(value, Enumerated):
            for item in value.items:
                found += _loaders_of(item.restrict(under), under)
    return found


def _agreed(condition: Condition) -> Condition:
    """What it asks of all ranks alike."""
    apart = condition.depending_on(Divergence.RANK)
    return condition.difference(Condition(frozenset(apart))) if apart else condition


def _objects_in(m: Evaluator, iterable: Values) -> Iterator[Allocated]:
    """The models and optimizers of `for model, optimizer in zip(models, optimizers)`, for example."""
    todo = [(value, False) for value in iterable.restrict(m.path)]
    # A list may hold itself.
    seen: set[Value] = set()
    while todo:
        value, held = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        if isinstance(value, ListOf):
            inside = (m.state(value, ContainerState.items), m.state(value, ContainerState.more))
            todo += [(each, True) for values in inside if values is not None for each in values.restrict(m.path)]
        elif isinstance(value, (TupleOf, Enumerated)):
            held = held or isinstance(value, TupleOf)
            todo += [(each, held) for values in value.items for each in values.restrict(m.path)]
        elif isinstance(value, Allocated) and (held or value.is_model):
            yield value


def _times(iterable: Values) -> int | None:
    """How many rounds there are, where that is known."""
    match iterable.single:
        case Range(start=start, stop=stop):
            first, last = int_of(start.single), int_of(stop.single)
            return max(0, last - first) if first is not None and last is not None else None
        case TupleOf(items):
            return len(items)
        case Enumerated(items=[first, *_]):
            return _times(first)
    return None
