"""What `TORCH_DISTRIBUTED_DEBUG=DETAIL` says where ranks call different collectives: the print of each call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from gpudoctor.record import dataclass

_TOLD = "Detected mismatch between collectives on ranks"
_PRINT = re.compile(
    r"Rank (?P<rank>\d+) is running collective: CollectiveFingerPrint\((?:SequenceNumber=(?P<number>\d+)(?:, )?)?"
    r"OpType=(?P<operation>\w+)(?=[,)])"
    r"(?:, TensorShape=\[(?P<shape>[^\]]*)\](?:, TensorDtypes=(?P<dtype>[\w ,]*?)(?=, Tensor|\)))?)?"
)
"""Older versions have no number, and print no shape of what has none."""
_DEVICES = re.compile(r"(?:, TensorDeviceTypes=|  Tensor Tensor devices: .*?)?TensorOptions\((?:[^()]|\([^()]*\))*\)")


@dataclass(frozen=True)
class CalledCollective:
    """A call of one rank, by what was printed of it."""

    number: int | None
    operation: str
    shape: str
    dtype: str

    def __str__(self) -> str:
        of = f"[{self.shape}] {self.dtype}".strip() if self.shape or self.dtype else ""
        return f"{self.operation} of {of}" if of else self.operation


@dataclass(frozen=True)
class UnlikeCalls:
    """Calls of ranks that were matched with each other and do not belong together."""

    calls: Mapping[int, CalledCollective]

    @property
    def of_operations(self) -> bool:
        """They are different collectives, and not only tensors of different shapes."""
        return len({each.operation for each in self.calls.values()}) > 1

    @property
    def apart(self) -> tuple[int, ...]:
        """The ranks that call what the fewest do; none where that can be said of all."""
        many = Counter(map(str, self.calls.values()))
        fewest = min(many.values())
        ranks = tuple(sorted(rank for rank, call in self.calls.items() if many[str(call)] == fewest))
        return ranks if len(ranks) < len(self.calls) else ()

    @property
    def text(self) -> str:
        """Who called what."""
        what = "different collectives" if self.of_operations else "one collective with different tensors"
        each = "; ".join(f"rank {rank} {call}" for rank, call in sorted(self.calls.items())[:8])
        return f"ranks called {what}: {each}"


def without_devices(text: str) -> str:
    """An error without the two hundred letters on devices and layouts in each print, which are almost always alike."""
    return _DEVICES.sub("", text) if _TOLD in text else text


def unlike_calls(errors: Iterable[str]) -> UnlikeCalls | None:
    """What the errors of the ranks say; None where they tell of no such thing.

    What a rank says of itself counts. Of another it has read whatever lay there, where the two are not at one number.
    """
    own: dict[int, CalledCollective] = {}
    others: dict[int, CalledCollective] = {}
    for text in errors:
        found = [(int(each["rank"]), _call(each)) for each in _PRINT.finditer(text)] if _TOLD in text else []
        for rank, call in found[:1]:
            own.setdefault(rank, call)
        for rank, call in found[1:2]:
            if call.number == found[0][1].number:
                others.setdefault(rank, call)
    calls = {**others, **own}
    return UnlikeCalls(calls) if len({str(each) for each in calls.values()}) > 1 else None


def _call(found: re.Match[str]) -> CalledCollective:
    number = int(found["number"]) if found["number"] else None
    operation = found["operation"].lower().strip("_")
    return CalledCollective(number, operation, found["shape"] or "", (found["dtype"] or "").strip().lower())
