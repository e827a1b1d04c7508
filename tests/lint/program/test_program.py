"""The questions that rules ask of an executed program."""

import pytest

from gpudoctor.coverage import Cause
from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.events.data_loading import Iterate, SetEpoch
from gpudoctor.lint.events.event_context import EventContext, Loop, only_some_ranks, ranks_in_words
from gpudoctor.lint.events.knowledge import Escape, Imprecision, UseManaged
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import DestroyGroup, InitGroup
from gpudoctor.lint.flow.condition import ALWAYS, Atom, Condition, Divergence, Literal
from gpudoctor.lint.program import Program
from gpudoctor.lint.questions.loop_rounds import batch_loop

HERE = Location("train.py", 1)
MODEL, PART = Module("model", HERE, "model"), Module("part", HERE, "part")
WRAPPED = Wrapper("ddp", HERE, "model", WrapperKind.DDP, MODEL)
LOADER = Loader("loader", HERE, "loader")
EPOCHS = Loop("epochs", HERE, times=3)
BATCHES = Loop("batches", HERE, over=LOADER)
CHUNKS = Loop("chunks", HERE, times=1)
WRAP = Wrap(context=EventContext(HERE), order=1, wrapper=WRAPPED, inner=MODEL, kind=WrapperKind.DDP)
RANK_ZERO = Literal(Atom("rank 0", Divergence.RANK, ranks="rank 0"), True)


def program(*log: object, world: LaunchWorld = LaunchWorld.TORCHRUN, **more: object) -> Program:
    return Program(entry="train.py", world=world, log=log, **more)  # type: ignore[arg-type]


def lost(when: Condition = ALWAYS, loops: tuple[Loop, ...] = (), order: int = 0) -> Imprecision:
    return Imprecision(context=EventContext(HERE, condition=when, loops=loops), order=order, why="because")


def test_events_of_several_types_come_in_order():
    log = (
        InitGroup(context=EventContext(HERE), order=0, by="x"),
        WRAP,
        DestroyGroup(context=EventContext(HERE), order=2),
    )
    executed = program(*log)
    assert list(executed.events(DestroyGroup, InitGroup)) == [log[0], log[2]]
    assert list(executed.events(Wrap)) == [WRAP]
    assert executed.has(Wrap, Imprecision)
    assert not executed.has(Imprecision)


def test_a_program_is_distributed_where_processes_train_together():
    group = InitGroup(context=EventContext(HERE), order=0, by="x")
    assert program(group, WRAP).distributed
    assert not program(group, WRAP, world=LaunchWorld.SINGLE).distributed
    # Without a group it cannot run in several processes, unless what was not seen makes one.
    assert not program(WRAP).distributed
    assert program(WRAP, Imprecision(context=EventContext(HERE), why="too much", limit=True)).distributed
    assert not program().distributed
    ended = DestroyGroup(context=EventContext(HERE))
    assert not program(ended).distributed
    assert program(ended).launched_in_several
    assert not program(ended, world=LaunchWorld.SINGLE).launched_in_several


def test_managed_and_cut_short():
    managed = UseManaged(context=EventContext(HERE), framework="accelerate", call="accelerate.Accelerator")
    assert program(managed).managed_by == {"accelerate"}
    assert not program(lost()).cut_short
    assert program(Imprecision(context=EventContext(HERE), why="too much", limit=True)).cut_short


@pytest.mark.parametrize(("order", "cut"), [(1, True), (3, False)])
def test_what_comes_before_a_limit_was_not_cut(order: int, cut: bool):
    trained = DestroyGroup(context=EventContext(HERE), order=2)
    limit = Imprecision(context=EventContext(HERE), order=order, why="too much", limit=True)
    assert program(trained, limit).cut_before(trained) is cut
    assert not program(trained, lost(order=1)).cut_before(trained)


GROUP = InitGroup(context=EventContext(HERE), order=0, by="x")
MANAGED = UseManaged(context=EventContext(HERE), framework="accelerate", call="accelerate.Accelerator")
LIMIT = Imprecision(context=EventContext(HERE), why="too much", limit=True)
TAKEN = Escape(context=EventContext(HERE), into="company.run", values=(WRAPPED,))


@pytest.mark.parametrize(
    ("executed", "cause"),
    [
        (program(GROUP, has_entry=False), Cause.NO_ENTRY),
        (program(GROUP, MANAGED), Cause.FRAMEWORK),
        (program(GROUP, LIMIT), Cause.LIMIT),
        (program(GROUP, TAKEN), Cause.UNREAD),
    ],
)
def test_absence_wants_a_closed_world(executed: Program, cause: Cause):
    assert not executed.absence(of=MODEL)
    assert executed.answers.taken()[-1].cause is cause


def test_absence_of_what_stays_in_sight():
    assert program(GROUP).absence()
    assert program(GROUP, TAKEN).absence()
    assert program(GROUP, TAKEN).absence(of=LOADER)
    assert program(GROUP, MANAGED).absence(knows={"accelerate"})


def test_presence_wants_processes_that_train_together_by_themselves():
    assert program(GROUP, WRAP).presence()
    assert not program(WRAP).presence()
    assert not program(GROUP, WRAP, MANAGED).presence()
    assert program(GROUP, WRAP, MANAGED).presence(knows={"accelerate"})


def test_what_escapes_takes_its_model_along():
    escape = Escape(context=EventContext(HERE), into="company.run", values=(WRAPPED, LOADER))
    assert program(escape).escaped == {WRAPPED, MODEL, LOADER}


def test_parts_of_a_model():
    executed = program(WRAP, parts={MODEL: frozenset({PART}), PART: frozenset({MODEL})})
    assert executed.within(WRAPPED) == {MODEL, PART}


def test_iterations_and_what_happens_during_them():
    inside = lost(loops=(EPOCHS, BATCHES), order=1)
    log = (
        Iterate(context=EventContext(HERE, loops=(EPOCHS,)), loader=LOADER, loop=BATCHES),
        inside,
        lost(loops=(EPOCHS,)),
    )
    executed = program(*log)
    assert executed.iterations_of(LOADER) == (log[0],)
    assert executed.iterations_of(MODEL) == ()
    assert list(executed.during(BATCHES, Imprecision)) == [inside]
    assert len(list(executed.during(EPOCHS, Imprecision))) == 2
    assert list(executed.during(EPOCHS, SetEpoch)) == []


@pytest.mark.parametrize(
    ("loops", "batches"),
    [
        ((EPOCHS, BATCHES), BATCHES),
        ((EPOCHS, BATCHES, CHUNKS), BATCHES),
        ((EPOCHS, CHUNKS, BATCHES), BATCHES),
        ((EPOCHS,), None),
        ((), None),
    ],
)
def test_the_loop_over_batches_around_an_event(loops: tuple[Loop, ...], batches: Loop | None):
    assert batch_loop(lost(loops=loops)) is batches


def test_loops_that_repeat():
    assert [loop.repeats for loop in (EPOCHS, BATCHES, CHUNKS)] == [True, True, False]


@pytest.mark.parametrize(
    ("literals", "expected"),
    [
        ((), "every rank"),
        ((Literal(Atom("args.save", switch=True), True),), "every rank"),
        ((RANK_ZERO,), "rank 0 only"),
        ((RANK_ZERO.negated(),), "all ranks but rank 0"),
        ((Literal(Atom("rank % 2", Divergence.RANK), True),), "some ranks only"),
    ],
)
def test_who_gets_here(literals: tuple[Literal, ...], expected: str):
    event = lost(Condition(frozenset(literals)))
    assert ranks_in_words(event) == expected
    assert only_some_ranks(event) is (expected != "every rank")
    assert program(event).by_every_rank(event) is (expected == "every rank")


def test_nothing_is_said_of_every_rank_where_it_cannot_be_known():
    unread = lost(Condition(frozenset({Literal(Atom("ranks.is_main()", Divergence.UNREAD), True)})))
    assert not program(unread).by_every_rank(unread)
    assert not program(lost(), has_entry=False).by_every_rank(lost())
    assert not program(lost(), world=LaunchWorld.SINGLE).by_every_rank(lost())


def test_own_data_is_no_rank_guard():
    literal = Literal(Atom("loss > 1", Divergence.LOCAL), True)
    event = lost(Condition(frozenset({literal})))
    assert event.local_guards == (literal,)
    assert event.rank_guards == ()
