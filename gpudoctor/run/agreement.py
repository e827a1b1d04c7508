"""Whether all ranks hold the same parameters, at each step at which that was looked at."""

from __future__ import annotations

from gpudoctor.record import dataclass
from gpudoctor.run.recording import Recording


@dataclass(frozen=True)
class Agreement:
    """After a step: of so many tensors that an optimizer holds, in how many all ranks have the same numbers."""

    step: int
    optimizer: int
    tensors: int
    agreeing: int

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        return self.agreeing / self.tensors if self.tensors else 1.0


def agreements(recording: Recording) -> tuple[Agreement, ...]:
    """What was found at each step at which all ranks looked, in order; empty where nothing can be compared."""
    if why_no_agreement(recording):
        return ()
    return tuple(_agreements(recording))


def why_no_agreement(recording: Recording) -> str:
    """Why parameters were not compared; empty where they were."""
    if recording.others_elsewhere and not recording.distributed:
        return "this is the only rank of its node, and each node reports of its own ranks"
    if not recording.distributed:
        return "a single process has no parameters to compare"
    if not recording.trained:
        return "no optimizer stepped, so that there was nothing to compare"
    if any(each.sharded for rank in recording.ranks for each in rank.optimizers):
        return "each rank holds a shard of its own of the parameters, so that there is nothing to compare"
    if not _agreements(recording):
        return "the ranks were not looked at after the same steps, or hold different models"
    return ""


def _agreements(recording: Recording) -> list[Agreement]:
    checks = [
        {(each.step, each.optimizer): each.sums for each in rank.checks if not each.joined} for rank in recording.ranks
    ]
    found = []
    for step, optimizer in sorted(set.intersection(*(set(each) for each in checks))):
        sums = [each[step, optimizer] for each in checks]
        # Ranks that hold different models have divided one among them.
        if len({len(each) for each in sums}) == 1 and sums[0]:
            agreeing = sum(len(set(values)) == 1 for values in zip(*sums, strict=True))
            found.append(Agreement(step, optimizer, len(sums[0]), agreeing))
    return found
