"""One rank writes a file, and the others read it without waiting until it is there.

## What goes wrong

Rank 0 (the first process) is still writing `best.pt` when the others, who skip that block, reach `torch.load`: they
find no file (`FileNotFoundError`), half of one (`EOFError`, `PytorchStreamReader failed`), or that of an earlier run,
which they load unnoticed. It depends on how fast the disk is, so it shows on a cluster and not on a workstation.

## Fix

`dist.barrier()` between the two, on all ranks. Unsafe: a barrier that not all ranks reach makes the others wait.

## Silent when

All ranks meet in between: a barrier or another collective, the backward or forward of a wrapped model, the wrapping
itself; code that could not be read is called in between; only the rank that wrote the file reads it; it is not certain
that the paths are the same.

## Sources

KempnerInstitute/KempnerForge#49, allenai/OLMo#234, Lightning-AI/pytorch-lightning#4323,
https://docs.pytorch.org/tutorials/intermediate/ddp_tutorial.html#save-and-load-checkpoints; run on two CPU ranks with
torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import Event, ranks_in_words
from gpudoctor.lint.events.files import Load, ReadFile, Save, ShardedState
from gpudoctor.lint.events.knowledge import Escape, Imprecision
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.repair.repair import Always, Before, Code, Either, Imported, Repair
from gpudoctor.lint.repair.snippets import waits_for_all
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import TORN_FILE


class LoadBeforeSaveFinished(Rule):
    code = "GPU604"
    severity = Severity.ERROR
    errors = ("FileNotFoundError: [Errno 2] No such file or directory: 'model.pt'", *TORN_FILE)
    stops = True
    fix_safety = Safety.UNSAFE
    shows_when = ("distributed", "ended_well")
    needs = (Load, ReadFile)

    def in_code(self, program: Program) -> Findings:
        if not program.launched_in_several or not program.whole or program.managed_by - program.leaving("checkpoints"):
            return
        # Looking for meetings takes time, and few programs read what they wrote.
        meetings: list[Event] | None = None
        for load in program.events(Load, ReadFile):
            # Only where all ranks read: `if rank == 0:` around both is one process with itself.
            if not program.by_every_rank(load) or not load.on_one_path:
                continue
            # A file that this program does not write was there before it began.
            save = _last_save(program, load)
            if save is None:
                continue
            meetings = list(_meetings(program)) if meetings is None else meetings
            writer = ranks_in_words(save).removesuffix(" only")
            # Whoever has met the writer after it wrote finds the file.
            if any(save.order < event.order < load.order for event in meetings):
                continue
            yield self.found(
                at=load.location,
                message=f"All ranks read {load.path_shown('this file')} here, and nobody waits until "
                f"{writer} {'have' if writer.endswith('ranks') else 'has'} written it: the others find no file, half "
                "of one, or an old one.",
                remedy=f"Put `{waits_for_all(program)}` between the two, where every rank passes.",
                because=[("it is written here", save.location)],
                repair=_wait(program, load),
                by=load,
                guarded=True,
            )

    def in_run(self, recording: Recording) -> Findings:
        written = [save.path for rank in recording.ranks for save in rank.saves]
        for _, crash in recording.crashes():
            # By the name: a relative path in the error is relative to the program's folder.
            name = next((path.rpartition("/")[2] for path in written if path.rpartition("/")[2] in crash.text), None)
            if crash.type == "FileNotFoundError" and name and crash.place is not None:
                yield self.found(
                    crash.place,
                    f"A rank read `{name}` before another one had written it: `{crash.summary}`.",
                    remedy="Call `dist.barrier()` on all ranks between the save and the load.",
                )
                return


def _wait(program: Program, load: Load | ReadFile) -> Repair:
    """All ranks come by where the file is read."""
    meet: Code = (Imported("torch.distributed.barrier"), "()")
    group = next(program.events(InitGroup), None)
    always: Code = (*map(Always, (*group.context.calls, group.location)), *meet) if group is not None else meet
    asked: Code = ("if ", Imported("torch.distributed.is_initialized"), "():\n\t", *meet)
    return Repair("Wait until it is written", (Before(load.location, ((Either((always, asked)),),)),))


def _last_save(program: Program, load: Load | ReadFile) -> Save | None:
    """The last time before it that one rank alone wrote the same file."""
    # Rounds of a loop write it again and again: what counts is the last one.
    found = [
        save
        for save in program.events(Save)
        if save.order < load.order
        # All but one write what the one has not left there.
        and any(each.holds or not each.atom.ranks for each in save.rank_guards)
        and not save.collective
        and save.is_of(load)
        and not save.condition.excludes(load.condition)
    ]
    return found[-1] if found else None


def _meetings(program: Program) -> Iterator[Event]:
    """Where ranks meet, or may meet in code that was not read."""
    for event in program.events(Collective, Backward, Forward, Wrap, InitGroup, ShardedState, Escape, Imprecision):
        # Wrapped models meet in their forward if they have buffers, and in their backward.
        alone = isinstance(event, Forward) and not isinstance(event.module, Wrapper)
        if not alone and not event.rank_guards:
            yield event
