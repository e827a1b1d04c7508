"""How the context managers of libraries are called in the log."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.events.event_context import ONE_BY_ONE
from gpudoctor.lint.events.host_waits import DebugFlag
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import LibraryContext

GRADIENT_FREE = frozenset(
    {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.inference_mode"}
)

ANOMALY = ("set_detect_anomaly", "detect_anomaly")
NAMED = frozenset({"no_sync", "autocast", *ANOMALY, "join", "Join", "accumulate", "suppress"}) | ONE_BY_ONE


@told(HOOKS.context_name)
def context_name(dotted: str) -> str:
    """How an open context of a library is called in the log; empty for one that means nothing."""
    # Compared by its last part as well: Fabric and others offer it under their own name.
    if dotted in GRADIENT_FREE or dotted.endswith((".no_grad", ".inference_mode")):
        return "no_grad"
    last = dotted.rpartition(".")[2]
    if last == "set_grad_enabled":
        return "set_grad_enabled"
    # All else changes neither when gradients are reduced nor which rank goes first.
    return last if last in NAMED else ""


@told(HOOKS.context_closed)
def _checks_no_more(do: LibraryContext, name: str, place: Location) -> None:
    if name in ANOMALY:
        do.emit(DebugFlag, at=place, flag="anomaly", on=False)
