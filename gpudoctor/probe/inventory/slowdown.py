"""Why a GPU's clocks are lower than they could be: the bits of NVML, in words."""

from __future__ import annotations

from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Reason:
    """A reason for lower clocks. `harm` is what it says about the machine: "", "note" or "warn"."""

    bit: int
    name: str
    harm: str
    means: str


# Which reasons are worth a word is what Azure's node health checks go by: idle and the power cap are ordinary life.
REASONS = (
    Reason(0x1, "idle", "", "nothing runs on it"),
    Reason(0x2, "application-clocks", "note", "somebody has set fixed clocks for applications"),
    Reason(0x4, "power-cap", "note", "it draws as much power as it is allowed to"),
    Reason(0x8, "hardware-slowdown", "warn", "the hardware halves its clocks: too hot, or too little power"),
    Reason(0x10, "sync-boost", "note", "it keeps to the clocks of the other GPUs in its group"),
    Reason(0x20, "thermal-slowdown", "warn", "the driver lowers the clocks because it is too hot"),
    Reason(0x40, "hardware-thermal-slowdown", "warn", "the hardware halves its clocks because it is too hot"),
    Reason(0x80, "power-brake", "warn", "the power supply asks for lower clocks"),
    Reason(0x100, "display-clocks", "", "a display sets the clocks"),
)
BY_NAME = {reason.name: reason for reason in REASONS}


def in_words(bits: int) -> tuple[str, ...]:
    """The names of the reasons in a bit field; bits that are not known are kept as numbers."""
    names = [reason.name for reason in REASONS if bits & reason.bit]
    rest = bits & ~sum(reason.bit for reason in REASONS)
    return (*names, f"unknown-{rest:#x}") if rest else tuple(names)
