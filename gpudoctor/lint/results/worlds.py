"""The findings of one program in all its launch worlds, and in all ways in which launch files start it: each once, with
those in which it happens."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.program_facts import AsStarted, said_of
from gpudoctor.manifest.framework_roles import framework
from gpudoctor.record import replace


def with_starts(found: Iterable[tuple[AsStarted, tuple[Finding, ...]]]) -> tuple[Finding, ...]:
    """The findings of all ways of starting it, each with those in which it happens."""
    first: dict[object, Finding] = {}
    starts: dict[object, list[str]] = {}
    ways = list(found)
    together = any(way.several for way, _ in ways)
    for way, findings in ways:
        for each in findings:
            # Whoever trains in several processes tries the program out in one, where nothing need be fast.
            if together and not way.several and each.severity is Severity.PERF:
                continue
            key = each.code, each.location, each.message
            first.setdefault(key, each)
            starts.setdefault(key, []).extend(way.starts if _may_happen(each, way) else ())
    said = {key: said_of(tuple(dict.fromkeys(names))) for key, names in starts.items()}
    return tuple(replace(each, started_by=said[key], needs=()) for key, each in first.items())


def _may_happen(found: Finding, way: AsStarted) -> bool:
    """What needs several processes does not happen to the only one that is started, unless that starts the others; what
    needs an option, not where it is known not to be given."""
    options = (each for each in found.needs if isinstance(each, frozenset) and each)
    if way.complete and any(each.isdisjoint(way.given) for each in options):
        return False
    return way.several or found.world != LaunchWorld.TORCHRUN.value or framework(found.launcher).starts_processes


def with_worlds(found: list[list[Finding]], *, certain: bool) -> tuple[Finding, ...]:
    """The findings of all worlds. What happens however the program is launched names no world; it is not `certain`
    where launch files start it in other ways, too."""
    places = [{(each.code, each.location) for each in findings} for findings in found]
    everywhere = set.intersection(*places) if places and certain else set()
    # A program for several processes alone says so of all its findings: whoever reads them thinks in ranks.
    if len(found) == 1 and any(each.world != LaunchWorld.SINGLE.value for each in found[0]):
        everywhere = set()
    return tuple(
        # Repairs speak of values, which end here.
        replace(each, repair=None, world="" if (each.code, each.location) in everywhere else each.world)
        for findings in found
        for each in findings
    )
