"""Every rank opens an experiment logger of its own for what is one experiment.

## What goes wrong

All ranks (the processes of a distributed program) run the same code, so `wandb.init()` starts a run for each of them,
and `SummaryWriter(...)` writes a file of events for each into one folder, which TensorBoard shows as one run: the curve
jumps back and forth between the values of the ranks. Services answer with errors about runs that exist already.

## Fix

Open it on rank 0, and log from there; on the other ranks `None`, or `wandb.init(mode="disabled")`. Unsafe: every use
of the logger must be guarded as well. The fix leaves the uses as they are, and has a `SummaryWriter` of the other ranks
write to a temporary folder.

## Silent when

Only some ranks get there; the folder, the mode or another argument depends on the rank; the runs form a group on
purpose; a framework opens it; only some ranks log to a `SummaryWriter`: the files of the others stay empty.

## Sources

huggingface/pytorch-image-models#1309, wandb/wandb#9871, Lightning-AI/pytorch-lightning#11380,
https://docs.wandb.ai/guides/track/log/distributed-training.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.events.process import InitGroup, Spawn
from gpudoctor.lint.events.reporting import StartLogger, UseLogger
from gpudoctor.lint.repair.repair import Code, Either, Imported, Repair, SetArgument, Source
from gpudoctor.lint.repair.snippets import asked_first, is_first
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.checkpoint._imported_again import importing


class LoggerOnEveryRank(Rule):
    code = "GPU607"
    severity = Severity.WARNING
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "ranks.loggers")
    needs = (StartLogger,)

    def in_code(self, program: Program) -> Findings:
        # Their trainers open loggers on rank 0; what the program opens itself is opened by all.
        if not program.launched_in_several or program.managed_by - program.leaving("loggers"):
            return
        for start in program.events(StartLogger):
            # `shared` holds for grouped runs and for a folder or mode that depends on the rank: meant for all.
            spawn = None if program.by_every_rank(start) else importing(program, start)
            everywhere = spawn is not None or program.by_every_rank(start)
            if start.shared or not everywhere:
                continue
            if _stays_empty(program, start):
                continue
            # `init` alone would say nothing; a class says enough without its module.
            name = start.call if start.call.endswith(".init") else start.call.rpartition(".")[2]
            if spawn is not None:
                yield self._imported(name, start, spawn)
                continue
            yield self.found(
                at=start.location,
                message=f"`{name}` is called on every rank: {_comes_to(start)}.",
                remedy=f"Open it on rank 0 only: `if {asked_first(program, start)}:`, and put what is logged under the "
                "same test.",
                # The guard may belong around the caller; two steps up are enough to see that.
                because=[("called from here", call) for call in start.context.calls[-2:]],
                repair=_mute(program, start) if _can_ask(program) else None,
                by=start,
                guarded=True,
            )

    def _imported(self, name: str, start: StartLogger, spawn: Spawn) -> Finding:
        return self.found(
            start.location,
            f"`{name}` is called on every rank, and in the process that starts them: {_comes_to(start)}.",
            remedy="Open it in the function that the new processes run, on rank 0 only, and guard what is logged.",
            because=[("each process that this starts imports the program and runs this", spawn.location)],
        )

    def in_run(self, recording: Recording) -> Findings:
        opened: dict[tuple[object, ...], list[int]] = {}
        for rank in recording.ranks if recording.distributed else ():
            for each in rank.loggers:
                if not each.mute and not each.meant and each.place is not None:
                    ranks = opened.setdefault((each.place, each.call, each.given), [])
                    ranks += [rank.rank or 0] * ((rank.rank or 0) not in ranks)
        told: set[object] = set()
        for (at, call, _), ranks in opened.items():
            # Ranks that were given different folders or names are meant to have their own.
            if len(ranks) == len(recording.ranks) and isinstance(at, Location) and at not in told:
                told.add(at)
                yield self.found(
                    at,
                    f"Each of {len(ranks)} ranks called `{call}` here: one experiment ends up with one log per rank.",
                    remedy="Open it on rank 0 only: `if dist.get_rank() == 0:`, and put what is logged under the same "
                    "test.",
                )


def _comes_to(start: StartLogger) -> str:
    if start.adds_file:
        return "as many files of events as there are processes are shown as one run"
    return "one experiment gets as many runs as there are processes"


def _stays_empty(program: Program, start: StartLogger) -> bool:
    """All ranks open a file, and only some write to it: TensorBoard shows the same as with one file."""
    uses = [use for use in program.events(UseLogger) if use.logger == start.logger]
    known = program.absence(knows=program.leaving("loggers"))
    return start.adds_file and bool(uses) and known and all(use.rank_guards for use in uses)


def _can_ask(program: Program) -> bool:
    """The process group is the program's own: where a framework makes it, there may be none yet to be asked."""
    return program.has(InitGroup) or not program.frameworks


def _mute(program: Program, start: StartLogger) -> Repair | None:
    """The other ranks get a run that logs nothing, or a folder that nobody reads: what is logged needs no guard."""
    at, first = start.location, is_first(program.events(InitGroup), start, spawned=program.spawned)
    if start.call == "wandb.init":
        mode: Code = ("None if ", first, ' else "disabled"')
        return Repair("Open the run on rank 0 only", (SetArgument(at, "mode", mode),))
    if not start.call.endswith(".SummaryWriter"):
        return None
    name = "logdir" if start.call.startswith("tensorboardX") else "log_dir"
    given = Either(((Source(at, "0"),), (Source(at, name),), ("None",)))
    folder: Code = (given, " if ", first, " else ", Imported("tempfile.mkdtemp"), "()")
    return Repair("Have the other ranks write to a folder that nobody reads", (SetArgument(at, name, folder, 0),))
