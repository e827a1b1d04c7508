"""What all formats for reading tell of a finding: what happens, how it must be launched to happen, and how surely."""

from __future__ import annotations

from gpudoctor.diagnostic import Confidence, Finding
from gpudoctor.visible import visible

WORLDS = {
    "torchrun": "torchrun starts one process per GPU",
    "spawn": "the program itself starts one process per GPU",
    "single": "one process sees several GPUs",
}


def story(finding: Finding) -> list[str]:
    """Its sentences, the message first."""
    # Texts of the program stand in messages, with line ends of their own.
    told = [visible(finding.message)]
    worlds = [WORLDS.get(world, world) for world in finding.world.split(", ") if world]
    if worlds:
        told.append(f"This happens when {' and also when '.join(worlds)}.")
    if finding.confidence is Confidence.LIKELY:
        told.append("It happens on some of the ways through the program, not on all.")
    return told
