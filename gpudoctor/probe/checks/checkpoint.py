"""Is a checkpoint that one rank writes read whole by all others?"""

from __future__ import annotations

from gpudoctor.probe.checks.check import Examination, Seen, failed, passed, ranks_in_words
from gpudoctor.probe.checks.identical_parameters import digest
from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.results import Check
from gpudoctor.probe.workloads import reference

NAME = "checkpoint"
_FILE = "checkpoint.pt"


def work(ctx: Context) -> Facts:
    """The first rank of each node writes; after a meeting all ranks of the node read into a model of their own."""
    import torch

    folder = ctx.folder / "checkpoint"
    folder.mkdir(exist_ok=True)
    written = ""
    if ctx.local_rank == 0:
        model = reference.network(seed=7)
        torch.save(model.state_dict(), folder / _FILE)
        written = digest(model.parameters())
    ctx.mark("waiting for the checkpoint")
    ctx.meet("checkpoint written")
    # Another seed: what is compared must come from the file.
    model = reference.network(seed=100 + ctx.rank).to(ctx.device)
    model.load_state_dict(torch.load(folder / _FILE, map_location=ctx.device, weights_only=True))
    files = sorted(each.name for each in folder.iterdir())
    ctx.meet("checkpoint read")
    return {"written": written, "read": digest(model.parameters()), "files": files}


def judge(seen: Seen) -> Check:
    """One file a node, and each rank has read what the writer of its node wrote."""
    nodes = seen.world.nodes
    writers = {nodes[rank]: facts["written"] for rank, facts in sorted(seen.ranks.items()) if facts["written"]}
    bad = [rank for rank, facts in sorted(seen.ranks.items()) if facts["read"] != writers.get(nodes[rank])]
    extra = sorted({name for facts in seen.ranks.values() for name in facts["files"]} - {_FILE})
    if bad or extra:
        reason = (
            f"{ranks_in_words(bad)} read other parameters than were written"
            if bad
            else f"more than one file was written: {', '.join(extra)}"
        )
        return failed(
            NAME,
            reason,
            "have the folder of temporary files (TMPDIR) checked: `df -h` and `mount` say what it lies on",
            figure=float(len(bad)),
            unit="ranks wrong",
            expectation="0",
        )
    return passed(NAME, f"one file, read by {len(seen.ranks)} ranks", figure=0.0, unit="ranks wrong", expectation="0")


EXAMINATION = Examination(NAME, "a checkpoint is written once and read by all", work, judge)
