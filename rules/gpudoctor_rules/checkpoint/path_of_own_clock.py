"""Each rank makes the name of a file or a folder from its own clock or dice, and the names differ.

## What goes wrong

Every rank (each process, one for each GPU) asks for the date itself: `run = time.strftime("%m%d-%H%M%S")`. Processes do
not get there at the same moment: when the second changes in between, and always with microseconds, `uuid4()` or a
random number that nobody has seeded, each has a name of its own. Rank 0 then writes `runs/1204-101559/best.pt`, and the
others look for `runs/1204-101600/best.pt`: `FileNotFoundError`, or a checkpoint in pieces, each in another folder.
Where nobody looks, half of the folders stay empty. With one GPU there is one name, and a test on two works most of the
time.

## Fix

Let rank 0 make the name and broadcast it: `names = [time.strftime(...)]`, `dist.broadcast_object_list(names, src=0)`;
or take it from the command line or the launcher (`TORCHELASTIC_RUN_ID`), which all ranks share. No automatic fix, since
the name may be made before there is a process group.

## Silent when

One rank alone makes the name, or it is made before the processes are started; it was broadcast, or went through code
that could not be read; a random number comes from a generator that the program seeds; it holds the rank, so that each
is to have its own, or names a folder that each removes again; nothing is read or made there but on rank 0.

## Sources

DiamondLightSource/httomo#721, p-doom/jasmine#62; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.lint.events.files import ChangeFolder, Load, Save
from gpudoctor.lint.events.host_waits import ClockRead
from gpudoctor.lint.events.process import ReadOwn, SeedSet
from gpudoctor.lint.questions.own_readings import readings_in_path
from gpudoctor.record import dataclass, field
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules.checkpoint._imported_again import importing

if TYPE_CHECKING:
    from collections.abc import Hashable

    from gpudoctor.api.pack import Location

    Use = Save | Load | ChangeFolder
    Reading = ClockRead | ReadOwn


@dataclass
class _Named:
    """What is done under names that were made from one reading."""

    by_some: list[Use] = field(default_factory=list)
    by_all: list[Use] = field(default_factory=list)


class PathOfOwnClock(Rule):
    code = "GPU610"
    severity = Severity.WARNING
    errors = ("FileNotFoundError: [Errno 2] No such file or directory",)
    stops = True
    of_ranks = True
    needs = (ClockRead, ReadOwn)

    def in_code(self, program: Program) -> Findings:
        if not program.distributed or program.managed_by or not program.whole:
            return
        made: list[Reading] = [*program.events(ClockRead), *program.events(ReadOwn)]
        readings = {event.identity: event for event in made}
        for identity, named in _uses(program).items():
            reading = readings.get(identity)
            if reading is None or _is_seeded(program, reading):
                continue
            # What starts the ranks has each of them import the program, and ask anew.
            anew = importing(program, reading)
            if not (program.by_every_rank(reading) or anew):
                continue
            place = _place_of(program, reading)
            harm = _harm(named)
            if harm is None:
                continue
            what, event, before = harm
            yield self.found(
                place,
                f"{_asked(reading)} a different name: {what}.",
                remedy="Make it in the function that starts the processes, and hand it to them as an argument."
                if anew
                else "Let rank 0 make the name, and send it to all ranks with `dist.broadcast_object_list`.",
                because=[
                    ("asked for here", reading.location),
                    *([(f"{ranks_in_words(before)} writes here", before.location)] if before is not None else []),
                    ("and every rank gets here", event.location),
                ],
                doubt="Ranks that ask at the same moment get the same." if _is_of_a_clock(reading) else "",
                needs=event.condition,
            )


def _asked(reading: Reading) -> str:
    if isinstance(reading, ReadOwn) and reading.drawn:
        return "Each rank draws for itself here, without a seed, and gets"
    return "Each rank asks for itself here, and those that ask a moment later get"


def _is_of_a_clock(reading: Reading) -> bool:
    return not isinstance(reading, ReadOwn) or reading.clock


def _is_seeded(program: Program, reading: Reading) -> bool:
    """A random number that may be the same on all ranks: somebody seeds the generator that it is drawn from, or may."""
    if not isinstance(reading, ReadOwn) or not reading.drawn:
        return False
    seeds = [each for each in program.events(SeedSet) if each.order < reading.order and reading.drawn in each.of]
    return bool(seeds or program.lost or program.escaped)


def _harm(named: _Named) -> tuple[str, Use, Use | None] | None:
    """What comes of it, the event that shows it, and what some ranks alone have done before."""
    for event in named.by_all:
        before = next((each for each in named.by_some if each.order < event.order), None)
        if before is not None and not isinstance(event, ChangeFolder):
            return f"they do not find what {ranks_in_words(before).removesuffix(' only')} has put there", event, before
    parts = next((each for each in named.by_all if isinstance(each, Save) and each.collective), None)
    if parts is not None:
        return f"the parts of {parts.path_shown('the checkpoint')} are written to several places", parts, None
    folders = [each for each in named.by_all if isinstance(each, ChangeFolder)]
    # A folder that is removed again is a place to work in, which each process is to have for itself.
    if not folders or any(each.removes for each in folders):
        return None
    return "several folders are made for one run", folders[0], None


def _uses(program: Program) -> dict[Hashable, _Named]:
    """What is written and looked for under names that come from readings, by the reading."""
    found: dict[Hashable, _Named] = {}
    uses: list[Use] = [*program.events(Save), *program.events(Load), *program.events(ChangeFolder)]
    for event in sorted(uses, key=lambda each: each.order):
        for identity in readings_in_path(program, event):
            named = found.setdefault(identity, _Named())
            if program.by_every_rank(event):
                named.by_all.append(event)
            elif event.rank_guards and not isinstance(event, Load):
                named.by_some.append(event)
    return found


def _place_of(program: Program, reading: Reading) -> Location:
    """Where the author acts: a helper in another file that only says what the time is will be right for others."""
    frames, calls = reading.context.frames, reading.context.calls
    around = [each for each in program.log if each.context.frames[: len(frames)] == frames]
    plain = all(isinstance(each, (ClockRead, ReadOwn)) for each in around)
    apart = bool(calls) and calls[-1].path != reading.location.path
    return calls[-1] if apart and plain and len(frames) > 1 else reading.location
