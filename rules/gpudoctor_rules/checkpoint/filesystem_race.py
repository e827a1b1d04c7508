"""All ranks create or remove the same folder or file at the same time, and only the first one succeeds.

## What goes wrong

All ranks (the processes, one for each GPU) run the same code. `os.makedirs(path)` succeeds on the first and ends with
`FileExistsError: [Errno 17] File exists` on all others. A test in front of it does not help: between `if not
os.path.exists(path)` and the next line another rank has made the folder. `shutil.rmtree(path)` and `os.remove(path)`
fail in the same way with `FileNotFoundError`, or remove what another rank has just begun to write. One dead rank ends
the whole job, though not every time, and never on a single GPU.

## Fix

`exist_ok=True`, which is safe: a folder that is there already is what was wanted. What is removed should be removed by
one rank, with a barrier after it.

## Silent when

Only some ranks get there, or one has been there before; the folder has been listed; the path holds the rank or the
time, or is not known; the error is caught or ignored; a lock or a framework lets one rank go first.

## Sources

wandb/wandb#3208, deepspeedai/DeepSpeed#4536, Lightning-AI/pytorch-lightning#5155; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import only_some_ranks
from gpudoctor.lint.events.files import ChangeFolder, ReadFile, lacking
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import Caught
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.waiting_ranks import others_wait
from gpudoctor.lint.repair.repair import Imported, Repair, Replace, SetArgument
from gpudoctor.lint.repair.snippets import asked_first, waits_for_all
from gpudoctor.rule import SOME_PATHS, Findings, Program, Recording, Rule

NO_RACE = frozenset({"suppress", "unread"})
"""What is open around it: errors are dropped, or code that was not read may let one rank go first."""


class FilesystemRace(Rule):
    code = "GPU608"
    severity = Severity.WARNING
    errors = ("FileExistsError: [Errno 17] File exists: 'checkpoints'",)
    stops = True
    fix_safety = Safety.SAFE
    shows_when = ("distributed", "ended_well")
    needs = (ChangeFolder,)
    looks_at = ((ChangeFolder, "may_race"),)

    def in_code(self, program: Program) -> Findings:
        starts = program.managed_by - program.leaving("folders")
        if not program.launched_in_several or starts - {"lightning"}:
            return
        # Whoever comes later finds what was made before, and does no harm.
        told: set[tuple[Location, ...]] = set()
        before: list[ChangeFolder] = []
        for event in program.events(ChangeFolder):
            together = not starts or _are_started(program, event)
            if together and _races(program, event) and not _done_before(event, before) and event.led_there not in told:
                told.add(event.led_there)
                yield self._finding(program, event)
            before.append(event)

    def in_run(self, recording: Recording) -> Findings:
        if recording.distributed and any(crash.type == "FileExistsError" for _, crash in recording.crashes()):
            yield from self.crashed(
                recording,
                "File exists",
                because="another rank had made it a moment before",
                remedy="Write `os.makedirs(path, exist_ok=True)`.",
            )

    def _finding(self, program: Program, event: ChangeFolder) -> Finding:
        does, error = ("removes" if event.removes else "makes"), _error(event)
        end = f"may end with `{error}`, not every time" if event.condition else f"end with `{error}`"
        return self.found(
            at=event.location,
            message=f"Every rank {does} {event.path_shown('the same folder')} here, all at the same time: the first "
            f"succeeds, the others {end}.",
            remedy=_remedy(program, event),
            # A guard may belong around the caller.
            because=[("called from here", call) for call in event.context.calls[-2:]],
            doubt=("It takes two ranks that ask at the same moment." if lacking(event.condition) else SOME_PATHS)
            if event.condition
            else "",
            repair=None if event.removes or _copies(event) else _tolerate(event),
            # What makes a folder can bear others beside it; what removes one cannot.
            by=event if event.removes else None,
            guarded=True,
        )


def _error(event: ChangeFolder) -> str:
    return "FileNotFoundError" if event.removes else "FileExistsError"


def _copies(event: ChangeFolder) -> bool:
    """It is made with all that another folder holds, which one rank is enough for."""
    return event.call == "shutil.copytree"


def _tolerate(event: ChangeFolder) -> Repair:
    """Whoever comes second finds what was wanted. `os.mkdir` has no word for that."""
    at = event.location
    given = SetArgument(at, "exist_ok", ("True",), 2)
    instead = (Replace(at, (Imported("os.makedirs"),), part="function"),) if event.call == "os.mkdir" else ()
    return Repair("Accept a folder that exists already", (*instead, given))


def _races(program: Program, event: ChangeFolder) -> bool:
    # `exist_ok`, `ignore_errors`, a handler or a lock.
    if not event.may_race or not NO_RACE.isdisjoint(event.context.contexts) or _is_caught(program, event):
        return False
    return (
        program.by_every_rank(event)
        and not event.local_guards
        and event.on_one_path
        and (event.removes or not _was_listed(program, event))
        and not others_wait(program, event)
    )


def _are_started(program: Program, event: ChangeFolder) -> bool:
    """Lightning starts the other processes when it trains, or is asked to: rank 0 has passed what stands before."""
    return any(
        each.order < event.order and (isinstance(each, Wrap) or not each.trains)
        for each in program.events(UseManaged, Wrap)
    )


def _is_caught(program: Program, event: ChangeFolder) -> bool:
    """A handler takes the error, and the rank trains with the others all the same: the training does not lie in what
    the handler protects."""
    return any(
        each.takes(_error(event)) and each.tries(event) and not any(map(each.tries, program.events(Backward)))
        for each in program.events(Caught)
    )


def _done_before(event: ChangeFolder, before: list[ChangeFolder]) -> bool:
    """The same was done to this folder before, on some rank or in the parent of all: then it is no news to the rest."""
    # The folder of an earlier run may be there, too, but nobody can know.
    same = [each for each in before if each.removes is event.removes]
    # The same function was called on one rank first, which may have found other values for the same path.
    if any(each.location == event.location and only_some_ranks(each) for each in same):
        return True
    return any(each.location != event.location and event.is_of(each) for each in same)


def _was_listed(program: Program, event: ChangeFolder) -> bool:
    """What is in the folder was asked on the way: it is there."""
    earlier = (each for each in program.events(ReadFile) if each.order < event.order)
    return any(_parts(each) == _parts(event) and event.condition.implies(each.condition) for each in earlier)


def _parts(event: ChangeFolder | ReadFile) -> set[tuple[Value, ...]]:
    """What its path is made of: `os.path.abspath(path)` is the same one."""
    return {value.in_text for value in event.path or ()}


def _remedy(program: Program, event: ChangeFolder) -> str:
    if event.removes:
        return f"Let one rank remove it: `if {asked_first(program, event)}:`, and `{waits_for_all(program)}` after it."
    if _copies(event):
        return f"Let one rank copy it: `if {asked_first(program, event)}:`."
    # `os.mkdir` has no such argument.
    if event.call == "os.mkdir":
        return "Write `os.makedirs(path, exist_ok=True)`: then it does not matter which rank is first."
    return "Add `exist_ok=True`: then it does not matter which rank is first."
