"""What the NVLinks of a machine can carry, from what NVML counts: a name does not tell how many a card has."""

from __future__ import annotations

from gpudoctor.probe.results import ProbedMachine

_LANE = 25.0
"""GB/s of one link of a data-centre GPU since Volta, in one direction, and twice that since Blackwell."""


def nvlink_speed(machine: ProbedMachine) -> float | None:
    """GB/s in one direction of the weakest pair that is joined by NVLink; None where NVML does not tell.

    The driver tells the rate on the wire, with up to 6 % of encoding: 26.6 stands for 25.
    """
    counts = [_links(link.kind.value) for link in machine.links]
    facts = [gpu.facts.get("nvlink_megabytes_per_second") for gpu in machine.gpus]
    numbers = [float(fact.value) for fact in facts if fact is not None and isinstance(fact.value, int | float)]
    if not counts or not all(counts) or not numbers:
        return None
    return min(counts) * _net(min(numbers) / 1000)


def _links(kind: object) -> int:
    """18 of NV18, and 0 of PIX."""
    text = str(kind)
    return int(text[2:]) if text.startswith("NV") and text[2:].isdigit() else 0


def _net(rate: float) -> float:
    return rate if rate < 0.9 * _LANE else _LANE * round(rate / _LANE)
