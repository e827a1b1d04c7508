"""What was followed of all programs of a request: each once, and nothing of training that one of them has reached."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from gpudoctor.coverage import Cause, Coverage, Followed, Silence
from gpudoctor.diagnostic import Location
from gpudoctor.record import replace


def told_once(programs: Iterable[Coverage], listed: AbstractSet[str]) -> tuple[Coverage, ...]:
    """Each program once in each world, and nothing of training that one of them has reached after all; then the files
    among the `listed` ones whose training no program calls."""
    first: dict[tuple[str, str, str], Coverage] = {}
    for each in programs:
        first.setdefault((each.path, each.world, each.started), each)
    reached = {at for each in first.values() if each.world for at in each.trains_at}
    awaited = {path for each in first.values() for path in each.awaits} | _called_by_files(first.values())
    told = [_without_reached(each, reached, awaited) for each in first.values()]
    named = {at.path for each in told for at in each.trains_at}
    named |= {one.at.path for each in told for one in each.silent_for if one.at is not None and one.missed}
    named |= {each.path for each in told} | awaited
    idle = {each.at.path: each for program in first.values() for each in program.idle if each.at is not None}
    return (*told, *(_idle(path, each) for path, each in idle.items() if path in listed and path not in named))


def _called_by_files(programs: Iterable[Coverage]) -> set[str]:
    """Files that start nothing and train through others that start nothing: those are to be started."""
    through = {each.path: {at.path for at in each.trains_at} for each in programs if not each.world}
    pairs = ((path, other) for path, reached in through.items() for other in reached if other != path)
    return {other for path, other in pairs if path not in through.get(other, ())}


def _idle(path: str, silence: Silence) -> Coverage:
    return Coverage(path, "", Followed.PARTLY, silent_for=(silence,))


def _without_reached(program: Coverage, reached: set[Location], awaited: set[str]) -> Coverage:
    """A file that starts nothing is read through the program that starts it, or would be, were that followed. So is one
    that trains itself in what another program calls: its own start is a trial of it."""
    if program.world:
        left = tuple(each for each in program.silent_for if not _trained_elsewhere(each, program.path, reached))
        unchanged = len(left) == len(program.silent_for)
        return program if unchanged else replace(program, silent_for=left, followed=Followed.PARTLY)
    called = program.path in awaited
    left = tuple(
        each for each in program.silent_for if each.cause is not Cause.NO_ENTRY or not (called or each.at in reached)
    )
    return program if len(left) == len(program.silent_for) else replace(program, silent_for=left)


def _trained_elsewhere(silence: Silence, path: str, reached: set[Location]) -> bool:
    at = silence.at
    return silence.cause is Cause.NOT_CALLED and at is not None and at.path == path and at in reached
