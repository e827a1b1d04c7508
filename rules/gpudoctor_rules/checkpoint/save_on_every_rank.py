"""Every rank writes the same file at the same time.

## What goes wrong

All ranks (the processes of a distributed program) run the same code, so a plain `torch.save` is executed by each of
them, and all write to one path. At best the work is done several times; at worst the writes mix, and the file cannot be
read: `PytorchStreamReader failed`, `invalid header or archive is corrupted`, `storage has wrong size`. DDP keeps the
weights of all ranks equal, so one rank is enough. Pictures, arrays and settings that are written as one file are
corrupted in the same way. A log that is opened with `"w"` loses lines, and one that is opened with `"a"` has each line
once per rank; both are warnings, as is a name in which only the time keeps the ranks apart.

## Fix

Guard the save with `if dist.get_rank() == 0:`, and with it the `with open(...)` around it. Unsafe: the statement may do
something that all ranks must do, such as gathering a sharded state; then only the writing goes under the guard. Where
the training goes on while a file is open, the other ranks open `os.devnull`.

## Silent when

Only some ranks get there, by whichever test, early return or decorator; the path holds the rank or is not known; what
is added to a file may differ between the ranks, or a logger lets the lines of one through; it is written where it is
missing, and one rank has been there before, or Lightning starts the others behind it; the save is a collective one, in
which each rank writes its part; a framework saves; a rank ends the job behind it because of its own data.

## Sources

pytorch/pytorch#73168, NVIDIA/apex#629, pytorch/pytorch#12042,
https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html#save-and-load-checkpoints.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.value import Values
from gpudoctor.lint.events.collective import Collective, LeaveLoop
from gpudoctor.lint.events.event_context import only_some_ranks
from gpudoctor.lint.events.files import Load, ReadFile, Save, lacking
from gpudoctor.lint.events.knowledge import LoopRun, Prepare
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.process import InitGroup, Spawn
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.questions.own_readings import apart_by_clocks_alone
from gpudoctor.lint.questions.waiting_ranks import others_begin_later, others_wait
from gpudoctor.lint.repair.repair import Code, Imported, Repair, SetArgument, Source, Under
from gpudoctor.lint.repair.snippets import asked_first, is_first
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import TORN_FILE
from gpudoctor_rules.checkpoint._imported_again import importing


class SaveOnEveryRank(Rule):
    code = "GPU601"
    severity = Severity.ERROR
    errors = TORN_FILE
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "ranks.saves")
    needs = (Save,)

    def in_code(self, program: Program) -> Findings:
        # Other frameworks guard their own ways of saving, in code that is not read.
        if not program.launched_in_several or program.managed_by - program.leaving("saving"):
            return
        told: set[tuple[Location, ...]] = set()
        files: list[Values | None] = []
        for save in program.events(Save):
            # A sharded save needs every rank: a guard around it would make the others wait without end.
            written = save.checkpoint or save.whole
            spawn = None if program.by_every_rank(save) else _importing(program, save)
            everywhere = spawn is not None or program.by_every_rank(save) or _on_the_other_side(program, save)
            together = everywhere and not save.one_rank_at_a_time and not others_wait(program, save)
            if not written or save.collective or not together or save.led_there in told:
                continue
            if save.told_who or (program.managed_by and not _by_itself(program, save)):
                continue
            # Files named by the rank are written apart on purpose; of shards one rank alone has nothing to write.
            alike = save.on_one_path or (save.checkpoint and apart_by_clocks_alone(program, save))
            if not alike or save.shards or _is_there_by_now(program, save):
                continue
            if _as_its_last(program, save):
                continue
            told.add(save.led_there)
            opened = _opened(program, save)
            if save.by_logger and opened is not None:
                yield self._logged(save, opened)
            # The handler that has emptied it was named, or the model to which this belongs.
            elif not (save.path in files and (save.by_logger or save.call == "save_pretrained")):
                files.append(save.path)
                yield self._written(program, save, opened, spawn)

    def _written(self, program: Program, save: Save, opened: Save | None, spawn: Spawn | None) -> Finding:
        absent = save.where_missing
        where = ", where it is not there yet," if absent else ","
        # What the rank's own data decides, as a NaN, comes to each at another time, or to one alone.
        decided = save.local_guards[0].atom.place if save.local_guards else None
        # Who only opens it has emptied it.
        around = "the `open` and all that is written" if opened is not None else "it"
        first = f"Let one rank write: put `if {asked_first(program, save)}:` around {around}"
        return self.found(
            at=save.location,
            message=f"Every rank adds to {save.path_shown()} here: the file has each line once per rank."
            if save.adds
            else f"Each rank writes {save.path_shown()} here when its own data says so: they overwrite each other's "
            "file, and corrupt it where two write at the same time."
            if decided
            else f"Every rank writes {save.path_shown()} here, with the time of its own clock in the name: as many "
            "files as there are ranks, or one that several write at once."
            if not save.on_one_path
            else f"Every rank writes {save.path_shown()} here{where} all at the same time: the file may end up "
            "corrupted.",
            remedy=f"{first}; or put the rank into its name, where each should keep its own."
            if spawn is None and decided
            else f"{first}."
            if spawn is None
            else f'Write it once: put `if __name__ == "__main__":` around {around}.',
            because=[
                ("each process that this starts imports the program", spawn.location if spawn else None),
                ("opened here", opened.location if opened is not None else None),
                *(("called from here", call) for call in save.context.calls[-2:]),
            ],
            doubt=_doubt(save),
            # Pictures and settings can be made again, and are often there from the run before.
            severity=Severity.WARNING if save.whole or decided or not save.on_one_path else None,
            repair=_guard(program, save, opened) if spawn is None else None,
            cause=(decided or next(iter(_with_it(program, opened)), None)) if spawn is None else None,
            by=save,
            guarded=True,
        )

    def _logged(self, save: Save, opened: Save) -> Finding:
        return self.found(
            at=opened.location,
            message=f"All ranks log to {save.path_shown()}: the file has each line once per rank.",
            remedy="Open it on rank 0 only, or set the level of the logger by the rank.",
            because=[
                *(("called from here", call) for call in opened.context.calls[-2:]),
                ("and all ranks log there, as here", save.location),
            ],
            doubt="What handles the log elsewhere may let one rank write alone.",
            severity=Severity.WARNING,
            by=opened,
            guarded=True,
        )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.checkpoint._written import opened_by_several, written_by_several

        named: set[str] = set()
        for each in written_by_several(recording):
            if not each.by_node:
                named.add(each.path)
                yield self.found(
                    each.at,
                    f"{recording.named(each.ranks)} wrote `{each.path}` after step {each.step}: the file may end up "
                    "corrupted.",
                    remedy="Let one rank write: put `if dist.get_rank() == 0:` around it.",
                )
        for each in opened_by_several(recording, self.code):
            # `torch.save(state, file)` writes what `open` has opened.
            if each.by_node or each.path in named:
                continue
            did = "added to" if each.added else "wrote"
            harm = "the file has each line once per rank" if each.added else "the file may end up corrupted"
            yield self.found(
                each.at,
                f"{recording.named(each.ranks)} {did} `{each.path}` after step {each.step}: {harm}.",
                remedy="Let one rank write: put `if dist.get_rank() == 0:` around the `open` and all that is written.",
                severity=Severity.WARNING,
            )


def _doubt(save: Save) -> str:
    if save.local_guards:
        return "Each rank gets here by its own data: at another time, or not at all."
    if lacking(save.condition):
        return "A rank that comes later finds it there, and writes nothing."
    return "It takes two ranks that write at the same moment." if save.whole else ""


def _importing(program: Program, save: Save) -> Spawn | None:
    """What starts the processes that write it as they import the program."""
    # The process that starts them has written it before, where that is asked.
    return None if save.where_missing else importing(program, save)


def _by_itself(program: Program, save: Save) -> bool:
    """The program writes it, not the framework. A trainer lets one rank write, and calls the program's part on one."""
    # The model's own method does not ask who calls it.
    if save.call == "save_pretrained":
        return True
    # Of a file that starts nothing it is not known who calls its functions.
    known = program.has_entry or program.managed_by <= program.leaving("loop")
    known = known and program.managed_by <= program.leaving("saving")
    # Of a loop that the program has written itself, a framework may be used for its device alone.
    wrapped = program.has(Wrap) or any(isinstance(each.made, Wrapper) for each in program.events(Prepare))
    averages = (each.averages for each in program.events(OptimizerStep))
    trained = wrapped or program.has(LoopRun) or any(each.managed for each in program.events(Backward)) or any(averages)
    return known and (trained if save.whole else not save.by_an_object)


def _on_the_other_side(program: Program, save: Save) -> bool:
    """`if rank == 0: train(writer) else: train(None)`: all ranks come here and write the same file, unless some wait
    for the others in between."""
    if len(save.rank_guards) != 1:
        return False
    other = (save.rank_guards[0].negated(),)
    same = (each for each in program.events(Save) if each.location == save.location and each.path == save.path)
    waits = [each.order for each in program.events(Collective) if each.waits and not each.rank_guards]
    orders = (sorted((save.order, each.order)) for each in same if each.rank_guards == other)
    return any(not any(first < order < last for order in waits) for first, last in orders)


def _is_there_by_now(program: Program, save: Save) -> bool:
    """It is written where it is not there yet, and one rank alone has come by before."""
    if not lacking(save.condition):
        return False
    before = (each for each in program.events(Save) if each.location == save.location and each.order < save.order)
    return any(map(only_some_ranks, before)) or others_begin_later(program, save)


def _as_its_last(program: Program, save: Save) -> bool:
    """A rank whose own data have gone wrong leaves a trace of it and ends the job: `sys.exit(1)`."""
    ends = (each for each in program.events(LeaveLoop) if each.how == "abort" and each.order > save.order)
    return bool(save.local_guards) and any(each.condition == save.condition for each in ends)


def _opened(program: Program, save: Save) -> Save | None:
    """Where the file was opened that is written here."""
    before = (each for each in program.events(Save) if each.call == "open" and each.order < save.order)
    return next((each for each in before if each.path is save.path), None)


def _with_it(program: Program, opened: Save | None) -> list[Location]:
    """The files that the same line opens: `with open(a, "w") as f, open(b, "w") as g:` needs one guard."""
    if opened is None:
        return []
    line = opened.location.path, opened.location.line
    files = dict.fromkeys(each.location for each in program.events(Save) if each.call == "open")
    return [each for each in files if (each.path, each.line) == line]


def _guard(program: Program, save: Save, opened: Save | None) -> Repair | None:
    # There may be no process group to ask: accelerate makes none for one process.
    if program.managed_by and (save.whole or not save.by_an_object):
        return None
    # What is written where it is missing is read by all right behind, who would have to wait.
    if save.whole and lacking(save.condition):
        return None
    # Who reads it right behind reads what it has written itself, and would find nothing.
    if any(_reads_at_once(program, load, save) for load in program.events(Load, ReadFile)):
        return None
    title = "Let one rank write"
    first = is_first(program.events(InitGroup), opened or save, spawned=program.spawned)
    # Where more is done while the file is open, the other ranks write nowhere.
    nowhere = None
    if opened is not None and opened.path_first and len(_with_it(program, opened)) == 1:
        path: Code = (Source(opened.location, "0"), " if ", first, " else ", Imported("os.devnull"))
        nowhere = Repair(title, (SetArgument(opened.location, "file", path, 0),))
    # What is written there may be made there, by all ranks together.
    together = program.events(Collective, Backward, Forward)
    if opened is not None and any(opened.order < each.order < save.order for each in together):
        return nowhere
    header = ("if ", first, ":")
    # `shutil.copyfile(filename, "best.pt")`: ranks that write nothing would look for a file that is not there yet.
    copies = {
        each.location: each
        for each in program.events(Save)
        if each.call.startswith("shutil.") and each.order > save.order and each.context.frames == save.context.frames
    }
    at = opened.location if opened is not None else save.location
    places = [at, *(place for place, copy in copies.items() if program.by_every_rank(copy))]
    return Repair(title, tuple(Under(place, header, skips=True) for place in places), otherwise=nowhere)


def _reads_at_once(program: Program, load: Load | ReadFile, save: Save) -> bool:
    """All ranks read the file, and nothing makes them wait for who wrote it."""
    if not load.is_of(save) or load.order < save.order or load.rank_guards or load.condition.excludes(save.condition):
        return False
    return not any(
        save.order < event.order < load.order and not event.rank_guards
        for event in program.events(Collective, Backward)
    )
