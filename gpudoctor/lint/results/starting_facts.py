"""What is known of a program for those who start it, from its executions on paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.rank import RankKind
from gpudoctor.lint.domain.value import Const, int_of, single_of
from gpudoctor.lint.events.data_loading import MakeLoader, MakeSampler
from gpudoctor.lint.events.knowledge import Stop, UseManaged
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.placement import DeviceUsed
from gpudoctor.lint.events.process import ArgumentDeclared, ArgumentsParsed, InitGroup, SettingRead, Spawn
from gpudoctor.lint.events.program_facts import RANKS_OF_TASKS, AsStarted, EngineUser, ProgramFacts
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import ALWAYS, Atom, Literal
from gpudoctor.lint.program import Program
from gpudoctor.record import replace


def facts_with(
    facts: ProgramFacts | None,
    programs: Sequence[Program],
    way: AsStarted,
    ways: Sequence[AsStarted],
    follow: Callable[[AsStarted, str], Sequence[Program]],
) -> ProgramFacts | None:
    """What is known of an entry, with what its programs of one way of starting it say, as one of several.

    `follow` executes it once more, started in another way, as one launch makes it or as was asked for.
    """
    if facts is None and any(program.has_entry for program in programs):
        facts = facts_of(programs)
        alone = next((each for each in ways if each.alone), None)
        if facts.group is not None and alone is not None:
            # Whether it goes on without a launcher shows where it is followed without one.
            single = follow(alone, LaunchWorld.SINGLE.value)
            facts = replace(facts, group_alone=not any(program.awaits_others for program in single))
    if facts is not None and way.tasks_of and facts.ignored is None:
        facts = replace(facts, ignored=_ignored(programs, way, follow))
    elif facts is not None and way.surely and way.complete:
        facts = _with_left_out(facts, programs, way, follow)
    ended = _ended(programs)
    if ended is None and way.complete and way.processes is not None and any(each.size_matters for each in programs):
        way = replace(way, left_out=True)
        ended = _ended(follow(way, ""))
    # The test that ends it before its training may do so because there are as many processes as this.
    if facts is None or ended is None or way.processes is None:
        return facts
    if not any(each.trained_at for each in follow(replace(way, processes=None), "")):
        return facts
    return replace(facts, refused=way.processes, refused_by=ended.what, refused_at=ended.at)


def _ended(programs: Sequence[Program]) -> Stop | None:
    """What ends a program before its training, where it has asked how many processes there are."""
    return next((each.ended for each in programs if each.size_matters and not each.trained_at), None)


def _ignored(
    programs: Sequence[Program], way: AsStarted, follow: Callable[[AsStarted, str], Sequence[Program]]
) -> Location | None:
    """Where it would make a group under `torchrun`, where it trains with none as it is started."""
    grouped = any(each.has(InitGroup) or each.frameworks or each.spawned for each in programs)
    if (
        grouped
        or not any(each.trained_at for each in programs)
        or any(each.may_name(*RANKS_OF_TASKS) for each in programs)
    ):
        return None
    others = (each for each in follow(replace(way, tasks_of=""), "") if each.world is LaunchWorld.TORCHRUN)
    return next((event.location for each in others for event in each.events(InitGroup)), None)


def _with_left_out(
    facts: ProgramFacts,
    programs: Sequence[Program],
    way: AsStarted,
    follow: Callable[[AsStarted, str], Sequence[Program]],
) -> ProgramFacts:
    """`torchrun train.py`, of a program that makes its group with `--distributed`: each process trains alone."""
    # Imported late: few programs are started in a way that surely leaves something out.
    from gpudoctor.lint.events.option_defaults import comes_to, flags_in

    chosen = [each for each in programs if each.assumptions.switches and each.has(InitGroup)]
    tests = [Literal(Atom(key, text=""), on) for each in chosen for key, on in each.assumptions.switches.items()]
    # With the defaults the tests come out otherwise.
    flags = [
        flag
        for test in tests
        for flag in flags_in(test, chosen[0].options)
        if comes_to(test, chosen[0].options) is False
    ]
    missing = tuple(f"--{flag}" for flag in dict.fromkeys(flags) if flag not in way.given)
    if not missing or len(chosen) != len(programs):
        return facts
    others = follow(replace(way, left_out=True), "")
    grouped = (each.lacks_group is None and (each.has(InitGroup) or each.frameworks or each.spawned) for each in others)
    if not others or not all(each.trained_at for each in others) or any(grouped):
        return facts
    group = next(chosen[0].events(InitGroup)).location
    options = tuple(dict.fromkeys((*facts.alone_without, *missing)))
    return replace(facts, ignored=group, alone_in=(*facts.alone_in, *way.starts), alone_without=options)


def facts_of(programs: Sequence[Program]) -> ProgramFacts:
    """What the programs of one entry say of how they want to be started."""
    started = [program for program in programs if program.has_entry]
    declared = [event for program in started for event in program.events(ArgumentDeclared)]
    managed = [event for program in started for event in program.events(UseManaged)]
    accumulation = _number(managed, "gradient_accumulation_steps", "accelerate")
    devices = _number(managed, "devices", "lightning")
    written = next(_written_counts(started), (None, None))
    return ProgramFacts(
        spawns=_spawns(started),
        starts_its_own=bool(started) and all(program.spawned for program in started),
        workers=next(_with_workers(started), None),
        by_local_rank=next(_by_local_rank(started), None),
        options=tuple(dict.fromkeys(flag.lstrip("-").replace("_", "-") for each in declared for flag in each.flags)),
        options_known=any(program.has(ArgumentsParsed) for program in started) if declared else _reads_none(started),
        # Not all that is stepped is an optimizer: a simulation has a `step`, too.
        trains=any(program.has(Backward) for program in started) or any(event.trains for event in managed),
        frameworks=tuple(sorted({event.framework for event in managed})),
        accumulation=accumulation[0],
        accumulation_at=accumulation[1],
        devices=devices[0],
        devices_at=devices[1],
        nodes=_number(managed, "num_nodes", "lightning")[0],
        engine_users=tuple(dict.fromkeys(_engine_users(managed))),
        settings_read=tuple(sorted({event.config_path for event in managed} - {""})),
        processes=written[0],
        processes_at=written[1],
        group=next((at for program in started if (at := program.awaits_others) is not None), None),
    )


def _reads_none(programs: Sequence[Program]) -> bool:
    """It asks for nothing that its command line says."""
    return not any(each.has(ArgumentsParsed, SettingRead) or each.may_name("argv") for each in programs)


def _written_counts(programs: Sequence[Program]) -> Iterator[tuple[int, Location]]:
    """Numbers that are given for that of all processes, of which a launcher starts as many as it is told."""
    launched = [program for program in programs if program.world is LaunchWorld.TORCHRUN]
    made = [(event.number_of_ranks, event.location) for program in launched for event in program.events(InitGroup)]
    samplers = (event for program in launched for event in program.events(MakeSampler))
    for number, at in [*made, *((int_of(single_of(each.sampler.replicas)), each.location) for each in samplers)]:
        if number is not None and number > 1:
            yield number, at


def _number(managed: Sequence[UseManaged], name: str, framework: str) -> tuple[int | None, Location | None]:
    for event in managed:
        number = int_of(single_of(event.setting(name))) if event.framework == framework else None
        if number is not None:
            return number, event.location
    return None, None


def _engine_users(managed: Sequence[UseManaged]) -> Iterator[EngineUser]:
    """Who hands settings to a framework, beside a file that configures DeepSpeed."""
    for event in managed:
        plain = {name: single_of(given) for name, given in event.given.keywords.items()}
        settings = tuple((name, value.value if isinstance(value, Const) else None) for name, value in plain.items())
        if event.framework in ("accelerate", "transformers") and (event.config_path or settings):
            whole = not event.given.open_ended
            yield EngineUser(event.framework, event.call, event.config_path, settings, event.location, whole)


def _spawns(programs: Sequence[Program]) -> Location | None:
    """Where it starts its own processes, whatever it was told."""
    if not programs or any(
        program.world is not LaunchWorld.SPAWN or program.assumptions.switches for program in programs
    ):
        return None
    spawns = (event for program in programs for event in program.events(Spawn))
    return next((event.location for event in spawns if event.condition == ALWAYS), None)


def _with_workers(programs: Sequence[Program]) -> Iterator[Location]:
    for event in chain.from_iterable(program.events(MakeLoader) for program in programs):
        workers = event.loader.num_workers
        if workers is not None and workers.all(lambda value: (int_of(value) or 0) > 0):
            yield event.loader.place


def _by_local_rank(programs: Sequence[Program]) -> Iterator[Location]:
    for event in chain.from_iterable(program.events(DeviceUsed) for program in programs):
        index = event.device.index or event.device
        if index.counts(RankKind.LOCAL) and event.certain:
            yield event.location
