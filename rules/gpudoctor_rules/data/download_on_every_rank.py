"""Every rank downloads the same data to the same place at the same time.

## What goes wrong

All ranks (the processes, one for each GPU) ask whether the files are there, all see that they are not, and all begin to
write them. One finds a file that another has half written, and fails: `RuntimeError: Dataset not found or corrupted`,
`RuntimeError: File not found or corrupted`, an archive that does not open, or a server that refuses so many requests
(HTTP 403). It works again as soon as the data is there, so it strikes on each new machine and is gone when somebody
looks.

## Fix

Let one rank of each node download, let the others wait at a barrier, then open the data on all ranks without
downloading. Or download it once before the training is started. No automatic fix.

## Silent when

One rank goes first: a test on the rank, barriers around it, a lock, `main_process_first`; the parent of `mp.spawn` or
one rank has done the same download before, or Lightning starts the others behind it; each rank has a folder of its own;
`download` is an option. Models and data sets of the Hugging Face hub are not reported: their files are locked.

## Sources

pytorch/tutorials#3065, mosaicml/composer#1201, Lightning-AI/pytorch-lightning#17732.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.event_context import only_some_ranks
from gpudoctor.lint.events.files import Download
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.waiting_ranks import others_begin_later, others_wait
from gpudoctor.lint.repair.snippets import own
from gpudoctor.rule import Findings, Program, Recording, Rule

if TYPE_CHECKING:
    from gpudoctor.run.recording import Process, Written

REMEDY = "Let `if local_rank == 0:` download it, then `dist.barrier()`, then open it on all ranks without downloading."


class DownloadOnEveryRank(Rule):
    code = "GPU314"
    severity = Severity.WARNING
    errors = (
        "RuntimeError: Dataset not found or corrupted. You can use download=True to download it",
        "RuntimeError: File not found or corrupted.",
    )
    needs = (Download,)

    def in_code(self, program: Program) -> Findings:
        if not program.launched_in_several or program.managed_by - program.leaving("downloads"):
            return
        found = [
            event
            for event in program.events(Download)
            if _at_once(program, event) and not others_begin_later(program, event)
        ]
        if not found:
            return
        # A training set and a test set are one mistake, with one remedy. What happens by default is told first.
        first, *others = sorted(found, key=lambda event: bool(program.unusual(event.location)))
        yield self.found(
            at=first.location,
            message=f"Every rank downloads {_what(first)}{_where(first)} at the same time: on a fresh machine they "
            "overwrite each other's files and end with `not found or corrupted`.",
            remedy=_remedy(program),
            because=[
                *(("called from here", call) for call in first.context.calls[-2:]),
                *(("this is downloaded in the same way", other.location) for other in others),
            ],
        )

    def in_run(self, recording: Recording) -> Findings:
        writers: dict[tuple[str, str], list[tuple[Process, Written]]] = {}
        for rank in recording.ranks:
            for file in _downloaded(rank):
                writers.setdefault((rank.host, file.path), []).append((rank, file))
        found = [each for each in writers.values() if len(each) > 1 and not _one_by_one(each)]
        for (rank, file), *others in found[:1]:
            assert file.place is not None
            who = recording.named(sorted(each.rank or 0 for each, _ in [(rank, file), *others]))
            yield self.found(
                file.place,
                f"{who} downloaded to `{file.path}`, within {_apart([file, *(each for _, each in others)]):.1f} s: "
                "one may read what the other has half written.",
                remedy=REMEDY,
            )

    def could_show(self, recording: Recording) -> bool:
        return recording.distributed and any(_downloaded(rank) for rank in recording.ranks)


def _remedy(program: Program) -> str:
    ahead = own(program, "first_goes_ahead")
    return f"Open it under `with {ahead}:`: one rank downloads, and the others find it there." if ahead else REMEDY


def _downloaded(rank: Process) -> list[Written]:
    """The files that a line wrote which also asked for something over the network, and took no lock."""
    asked = {each.place for each in rank.fetches if not each.locks}
    locked = {each.place for each in rank.fetches if each.locks}
    return [each for each in rank.opens if each.place in asked - locked]


def _one_by_one(writers: list[tuple[Process, Written]]) -> bool:
    """Whoever wrote first had the others wait for it: a collective lies between."""
    (rank, file), *_, (_, last) = sorted(writers, key=lambda each: each[1].at)
    return any(file.at < each.began < last.at for each in rank.collectives if not each.of_wrapper)


def _apart(files: list[Written]) -> float:
    times = [each.at for each in files]
    return max(times) - min(times)


def _at_once(program: Program, event: Download) -> bool:
    # With a folder for each rank nobody meets anybody.
    if not program.by_every_rank(event) or _own_folder(event):
        return False
    # A manager of code that could not be read may let one rank go first.
    if event.one_rank_at_a_time or "unread" in event.context.contexts or others_wait(program, event):
        return False
    return not any(_has_done(program, earlier, event) for earlier in program.events(Download))


def _own_folder(event: Download) -> bool:
    """The ranks may download to different places, or it is not known where to."""
    return event.path is None or event.path_differs(Divergence.RANK | Divergence.LOCAL | Divergence.UNREAD)


def _has_done(program: Program, earlier: Download, event: Download) -> bool:
    """One rank, or the process that starts the others, has downloaded the same thing before: then it is there."""
    alone = only_some_ranks(earlier) or program.by_one_process(earlier)
    return alone and earlier.order < event.order and earlier.call == event.call


def _what(event: Download) -> str:
    last = event.call.rpartition(".")[2]
    # `load` alone would say nothing.
    return f"`{last}`" if last[:1].isupper() else f"with `{event.call}`"


def _where(event: Download) -> str:
    return f" to `{event.path_text}`" if event.path_text else " to one place"
