"""An option of the launcher stands after the script, which gets it in the launcher's place.

## What goes wrong

A launcher reads its own options up to the script; all that follows belongs to the script. With
`torchrun train.py --nproc_per_node=4`, torchrun starts one process, and the script is told `--nproc_per_node=4`: it
trains on one GPU, or ends with `error: unrecognized arguments: --nproc_per_node=4`. The same holds for
`accelerate launch` and `deepspeed`.

## Fix

Move the option to before the script. Unsafe: from then on as many processes start as it says.

## Silent when

The script declares an option of that name itself, or may, as it reads its options in a way that was not followed; the
launcher has been given it already; what the launcher is given is not known.

## Sources

https://docs.pytorch.org/docs/stable/elastic/run.html, https://docs.python.org/3/library/argparse.html#nargs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.launchfiles.start import OF_TORCH, ProgramStart, StartedBy
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules.launch._starts import named

if TYPE_CHECKING:
    from gpudoctor.api.pack import LaunchFile, Word

_TORCH = frozenset(
    {"nproc-per-node", "nnodes", "node-rank", "master-addr", "master-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id"}
    | {"rdzv-conf", "standalone"}
)
_ACCELERATE = frozenset(
    {"num-processes", "num-machines", "machine-rank", "main-process-ip", "main-process-port", "multi-gpu", "gpu-ids"}
)
_OF_A_TRAINING = frozenset({"mixed-precision", "config-file", "use-deepspeed", "use-fsdp", "dynamo-backend"})
"""Options of Accelerate that programs have as well: they are its own where the program is known to have none."""
_DEEPSPEED = frozenset({"num-gpus", "num-nodes", "include", "exclude", "hostfile", "master-port", "master-addr"})
_OWN = frozenset({"nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id"})
"""What no program takes for itself."""
_ALONE = frozenset({"standalone", "multi-gpu", "use-deepspeed", "use-fsdp"})
"""Take no value."""


class LauncherFlagsAfterScript(Rule):
    code = "GPU421"
    severity = Severity.ERROR
    errors = ("error: unrecognized arguments: --nproc_per_node=4",)
    fix_safety = Safety.UNSAFE

    def in_launch(self, launched: Launched) -> Findings:
        for file, launch in launched.launches:
            misplaced = list(_misplaced(launched, file, launch))
            if not misplaced or launch.script is None:
                continue
            first = misplaced[0][0]
            name = first.shown.partition("=")[0]
            others = f", and so do {len(misplaced) - 1} more" if len(misplaced) > 1 else ""
            words = [word for word, _, own in misplaced for word in own]
            yield self.found(
                first.at,
                f"`{first.shown}` stands after {named(launch)} and goes to the script{others}: "
                f"`{launch.launcher.value}` {_effect(launch, [each for _, each, _ in misplaced], name)}.",
                remedy=f"Write it before {named(launch)}.",
                fix=launched.moved(
                    words, launch.script, Safety.UNSAFE, "Move the launcher's options before the script"
                ),
            )


def _effect(launch: ProgramStart, names: list[str], first: str) -> str:
    if launch.launcher in OF_TORCH and "nproc-per-node" in names:
        return "starts one process"
    return f"never sees `{first}`"


def _misplaced(launched: Launched, file: LaunchFile, launch: ProgramStart) -> Iterator[tuple[Word, str, list[Word]]]:
    """The option's word, its name, and all of its words."""
    known = {StartedBy.ACCELERATE: _ACCELERATE, StartedBy.DEEPSPEED: _DEEPSPEED, StartedBy.PYTHON: frozenset()}
    flags = known.get(launch.launcher, _TORCH)
    facts = launched.program_of(file, launch)
    own = frozenset(facts.options) if facts is not None else frozenset()
    if not launch.closed:
        return
    # A program that reads its options in ways that were not followed may know them all, but for a launcher's own.
    if facts is not None and not facts.options_known:
        flags = flags & _OWN
    elif facts is not None and launch.launcher is StartedBy.ACCELERATE:
        flags |= _OF_A_TRAINING
    for index, word in enumerate(launch.arguments):
        start = word.parts[0] if word.parts else ""
        if not isinstance(start, str) or not start.startswith("--"):
            continue
        bare, equals, _ = start[2:].partition("=")
        name = bare.replace("_", "-")
        if name not in flags or name in own or name in launch.options:
            continue
        alone = bool(equals) or name in _ALONE
        yield word, name, [word, *([] if alone else launch.arguments[index + 1 : index + 2])]
