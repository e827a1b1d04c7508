"""A collective is called without an argument that it needs, or with one where it does not belong.

## What goes wrong

`broadcast` must know from which rank (process) the tensor comes, `reduce` and `gather` to which one it goes. Without it
the call ends at once: `ValueError: Must specify global_rank or group_rank`, in older versions `TypeError: broadcast()
missing 1 required positional argument: 'src'`. `all_gather` takes the list first and the tensor second; the other way
round it is `TypeError: Invalid function argument. Expected parameter tensor_list of type List[torch.Tensor]`. `gather`
and `scatter` want their list on one rank only, the one that receives or sends: `ValueError: Argument gather_list must
NOT be specified on non-destination ranks.` None of this shows in a test with a single process, which skips these calls.

`[torch.zeros_like(x)] * dist.get_world_size()` is a list of one tensor, several times. `all_gather` writes what it gets
from each rank into that tensor, one after the other: every entry is what the last rank has sent, and nothing fails.

## Fix

No automatic fix: only the author knows which rank is meant. Mostly it is rank 0.

## Silent when

Arguments come from `*args` or `**kwargs` that cannot be followed; the list is None or empty on all ranks but one; it is
not known what the arguments are; a handler takes the `TypeError`, and the program goes on.

## Sources

pytorch/pytorch#25463, pytorch/pytorch#161467, flowersteam/lamorel#19,
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.broadcast; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.record import dataclass
from gpudoctor.rule import CrashText, Findings, Program, Recording, Rule


@dataclass(frozen=True)
class Remark:
    """What a finding says: what happens, and what to write."""

    message: str
    remedy: str


SRC = Remark("does not say which rank it is from: each rank ends with an error here.", "Name the rank: `src=0`.")
DST = Remark("does not say which rank it is for: each rank ends with an error here.", "Name the rank: `dst=0`.")
SWAPPED = Remark(
    "is given its tensor first: it wants the list that is filled first, and what this rank gives second.",
    "Swap the two arguments.",
)
NO_TENSOR = Remark(
    "is given something that is not a tensor: each rank ends with `TypeError` here.",
    "Put it into a tensor on the GPU first, as `torch.tensor(value, device=...)`, and read the result from that.",
)
ALIASED = Remark(
    "is given a list that holds one tensor several times: what comes from each rank is written over what came before, "
    "and all entries hold the values of the last rank.",
    "Make a tensor for each rank: `[torch.empty_like(x) for _ in range(dist.get_world_size())]`.",
)
EVERYWHERE = Remark(
    "is given its list on every rank: all ranks but the one that it is for end with `must NOT be specified`.",
    "Pass the list on that rank only: `values if dist.get_rank() == 0 else None`.",
)
NOWHERE = Remark(
    "is given no list on any rank: the one rank that needs it ends with `must be specified`, the others wait for it.",
    "Pass a list on that rank, and None on the others.",
)
REMARKS = {"lacks src": SRC, "lacks dst": DST, "in wrong order": SWAPPED, "no tensor": NO_TENSOR, "one tensor": ALIASED}
BY_RANK = {"list on every rank": EVERYWHERE, "list on no rank": NOWHERE}
"""Mistakes only where every rank passes."""


class CollectiveArguments(Rule):
    code = "GPU514"
    severity = Severity.ERROR
    errors = (
        "ValueError: Must specify global_rank or group_rank",
        "must NOT be specified on non-destination ranks",
        "TypeError: broadcast() missing 1 required positional argument: 'src'",
        "TypeError: Invalid function argument. Expected parameter tensor_list of type List[torch.Tensor]",
    )
    shows_when = ("ended_well",)
    of_ranks = True
    needs = (Collective,)
    looks_at = ((Collective, "flaw"),)
    crash = CrashText(
        ("Must specify global_rank or group_rank", "must NOT be specified on non-destination ranks"),
        remedy="Give the rank that sends or receives, as `src=0` or `dst=0`, and a list of results on that rank only.",
    )

    def in_code(self, program: Program) -> Findings:
        # Alone, a program mostly skips these calls: the mistake waits for the second process.
        for event in program.events(Collective):
            remark = _remark(program, event)
            if remark is None or program.is_caught(event, "TypeError"):
                continue
            yield self.found(
                at=event.location,
                message=f"`{event.call}` {remark.message}",
                remedy=remark.remedy,
                # Arguments come from the caller where the call stands in a helper.
                because=[("called from here", call) for call in event.context.calls[-1:]],
            )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks:
            into_one = next((each for each in rank.gathered_into_one if each.place is not None), None)
            if into_one is not None and into_one.place is not None:
                yield self.found(into_one.place, f"`{into_one.call}` {ALIASED.message}", remedy=ALIASED.remedy)
                return
        yield from super().in_run(recording)


def _remark(program: Program, event: Collective) -> Remark | None:
    # Nearly all calls are right.
    if not event.flaw:
        return None
    if event.flaw in BY_RANK:
        # In a group of its own, or with another rank named, somebody else may have the list.
        return BY_RANK[event.flaw] if event.of_all_ranks and program.by_every_rank(event) else None
    # What is left has no words of its own: the name of the argument says enough.
    missing = event.flaw.removeprefix("lacks ")
    remark = Remark(f"lacks `{missing}`: each rank ends with `TypeError` here.", f"Pass `{missing}` as well.")
    return REMARKS.get(event.flaw, remark)
