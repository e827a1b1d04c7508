"""What all formats for reading tell of a finding: what happens, how it must be launched to happen, and how surely."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.diagnostic import Finding, Safety
from gpudoctor.manifest.framework_roles import framework
from gpudoctor.page_address import read_more
from gpudoctor.visible import visible

WORLDS = {
    "torchrun": "torchrun starts one process per GPU",
    "spawn": "the program itself starts one process per GPU",
    "single": "one process sees several GPUs",
}
OTHER_STARTERS = {
    "options": "one process per GPU is started with its rank as an option",
    "mpi": "`mpiexec` starts one process per GPU",
    "slurm": "`srun` starts one process per GPU",
    "launch": "`torch.distributed.launch` starts one process per GPU",
}
"""How the processes begin of a program that torchrun could not tell their ranks."""
FIXABLE, PERHAPS = {Safety.SAFE: "[*]", Safety.UNSAFE: "[!]"}, "[?]"
"""Marks of findings that `--fix` would mend, or `--unsafe-fixes`, or perhaps one of them."""


def story(finding: Finding, *, with_launch: bool = True) -> list[str]:
    """Its sentences, the message first."""
    # Texts of the program stand in messages, with line ends of their own.
    told = [visible(finding.message)]
    if with_launch and (launch := _launch(finding)):
        told.append(f"This happens {launch}.")
    if finding.doubt:
        told.append(visible(finding.doubt))
    return told


def whole_story(finding: Finding, *, linked: bool = False) -> str:
    """The lines of a finding where nothing but text is shown. Where its code is `linked`, nobody looks for the page."""
    led_there = (f"{related.location.start}: {visible(related.message)}" for related in finding.related)
    remedy = [f"help: {visible(finding.remedy)}"] if finding.remedy else []
    page = [] if linked else [f"Read more: {read_more(finding.code, finding.name)}"]
    return "\n".join((*story(finding), *led_there, *remedy, *page))


def head(finding: Finding) -> list[str]:
    """Where, how bad, which rule, and whether it can be fixed: `train.py:3:5:`, `error:`, `GPU302`, `[*]`, its name."""
    marks = [FIXABLE[finding.fix.safety]] if finding.fix else [PERHAPS] if finding.unwritten else []
    return [f"{finding.location}:", f"{finding.severity.value}:", finding.code, *marks, finding.name]


def launch_of_all(findings: Sequence[Finding]) -> str:
    """One sentence for several findings that happen when the program is launched in the same way; empty where it must
    be said at each."""
    launches = [_launch(finding) for finding in findings]
    ways = set(launches) - {""}
    with_it = {finding.code for finding, way in zip(findings, launches, strict=True) if way}
    always = {finding.code for finding, way in zip(findings, launches, strict=True) if not way}
    if len(ways) != 1 or launches.count("") > len(findings) - 2 or with_it & always:
        return ""
    which = "All of this happens"
    if always:
        which = f"{_listed(with_it)} happen" if len(with_it) < len(always) else f"All but {_listed(always)} happen"
        which += "s" if len(with_it) == 1 and len(with_it) < len(always) else ""
    return f"{which} {ways.pop()}."


def _launch(finding: Finding) -> str:
    words = WORLDS | {"torchrun": OTHER_STARTERS.get(finding.launcher, WORLDS["torchrun"])}
    worlds = [words.get(world, world) for world in finding.world.split(", ") if world]
    if finding.started_by and worlds:
        return visible(finding.started_by)
    starter = framework(finding.launcher).launcher
    return " and also ".join(f"when {world}" for world in worlds).replace("torchrun", starter, 1)


def _listed(codes: set[str]) -> str:
    *most, last = sorted(codes)
    return f"{', '.join(most)} and {last}" if most else last
