"""Do all ranks hold the same parameters after some steps of DDP?

Each rank trains on batches of its own. DDP averages the gradients, so the parameters must stay the same, bit by bit.
"""

from __future__ import annotations

import hashlib
from typing import Any

from gpudoctor.probe.checks.check import Examination, Seen, failed, passed, ranks_in_words
from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.results import Check
from gpudoctor.probe.workloads import reference

NAME = "identical-parameters"
STEPS = 5


def work(ctx: Context) -> Facts:
    """Train a few steps and hand over a digest of all parameters after each of them."""
    import torch

    model = reference.wrapped(ctx, reference.network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    digests = [digest(model.parameters())]
    for step in range(STEPS):
        ctx.mark(f"step {step + 1} of {STEPS}")
        inputs, labels = reference.batch(ctx.rank, step)
        optimizer.zero_grad()
        reference.loss_of(model, inputs.to(ctx.device), labels.to(ctx.device)).backward()
        optimizer.step()
        digests.append(digest(model.parameters()))
    norm = float(sum(each.detach().double().pow(2).sum() for each in model.parameters()) ** 0.5)
    return {"digests": digests, "norm": norm}


def digest(tensors: Any) -> str:
    """A digest of the bytes of all tensors, wherever they are."""
    import torch

    state = hashlib.blake2b(digest_size=8)
    for each in tensors:
        whole = each.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        state.update(bytes(whole.tolist()))
    return state.hexdigest()


def judge(seen: Seen) -> Check:
    """The digests of all ranks must agree after each step, and change."""
    digests = [facts["digests"] for _, facts in sorted(seen.ranks.items())]
    for step, at in enumerate(zip(*digests, strict=True)):
        if len(set(at)) > 1:
            odd = [rank for rank, each in enumerate(at) if each != at[0]]
            norms = ", ".join(f"{facts['norm']:.6g}" for _, facts in sorted(seen.ranks.items()))
            return failed(
                NAME,
                f"{ranks_in_words(odd)} and rank 0 hold different parameters after step {step} (norms in the end: "
                f"{norms})",
                "training would drift apart silently: run `gpudoctor probe --ranks 2` on pairs of GPUs "
                "(CUDA_VISIBLE_DEVICES) to find the one that is to blame",
                figure=float(len(odd)),
                unit="ranks apart",
                expectation="0",
                source="DDP gives each rank the same gradients, bit by bit",
            )
    if digests[0][0] == digests[0][-1]:
        return failed(NAME, f"the parameters did not change in {STEPS} steps", "update torch", figure=0.0)
    return passed(
        NAME,
        f"the parameters of {len(digests)} ranks are the same, bit by bit, after {STEPS} steps",
        figure=0.0,
        unit="ranks apart",
        expectation="0",
    )


EXAMINATION = Examination(NAME, "all ranks hold the same parameters after some steps", work, judge)
