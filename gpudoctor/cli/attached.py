"""`gpudoctor run --attach PID`: what is told of a job that was not started by us."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.cli.run_report import standing
from gpudoctor.plain import plain
from gpudoctor.report.text import Style, wrap
from gpudoctor.run.hang_verdict import verdict_of

if TYPE_CHECKING:
    from gpudoctor.run.attach import Attached


def attached_document(found: Attached) -> str:
    """The same as JSON: `version`, `ranks`, `moving`, `looks`, and `hang_verdict` as in the report of a run."""
    verdict = verdict_of(found.waiting)
    hang = {"kind": verdict.kind.value, "ranks": verdict.ranks} if verdict else None
    return json.dumps({"version": 1, **plain(found), "hang_verdict": hang}, indent=2) + "\n"


def attached_report(found: Attached, style: Style) -> Iterator[str]:
    """The ranks with their lines, what keeps them, and what would tell more."""
    count = len(found.ranks)
    yield style.paint(f"gpudoctor run: {count} rank{'' if count == 1 else 's'} on this node", "bold")
    waiting = found.waiting
    if found.moving:
        names = ", ".join(map(str, found.moving))
        yield from wrap(f"The job advances: rank {names} stood at other lines at another look.", style.width, "  ")
    elif waiting and (verdict := verdict_of(waiting)) is not None:
        text = f"At each of {found.looks} looks every rank stood at the same lines. If the job does not advance: "
        yield from wrap(text + verdict.text, style.width, "  ")
    yield from standing(waiting, style)
    for each in found.ranks:
        yield from wrap(f"Rank {each.rank}, process {each.pid}: it {each.view.in_words}.", style.width, "  ")
    for why in dict.fromkeys(each.view.why_not for each in found.ranks if each.view.why_not):
        yield from wrap(f"Where the ranks are is not known: {why}.", style.width, "  ")
    dumps = [each.dump for each in found.ranks if each.dump]
    if dumps:
        yield from wrap(
            f"Their flight recorders are being written: `gpudoctor read {' '.join(dumps)}`", style.width, "  "
        )
    else:
        yield from wrap(
            "Which collectives they are in only their flight recorders know: for the next time, start the job with "
            "`gpudoctor run`, or with TORCH_NCCL_DEBUG_INFO_PIPE_FILE set.",
            style.width,
            "  ",
        )
