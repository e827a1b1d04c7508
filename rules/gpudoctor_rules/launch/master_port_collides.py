"""Several trainings that may run on one machine at once are given the same port.

## What goes wrong

The process with rank 0 opens the port on which the others of its training meet, 29500 where none is given. Of two
trainings on a machine the second ends with `RuntimeError: The server socket has failed to listen on any local network
address ... EADDRINUSE`, or its processes join the first one and both hang.

## Fix

Give each its own port, or let torchrun choose a free one with `--standalone`.

## Silent when

The port is not known, as where it is drawn at random or counted; one training waits for the other; each runs on a
machine of its own, as jobs of an array do that ask for four GPUs or more, or for all memory.

## Sources

facebookresearch/detectron2#91, pytorch/torchtune#392, meta-llama/llama-cookbook#186, facebookresearch/XLM#53.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.launchfiles.start import OF_TORCH, ProgramStart, StartedBy, Starter, StartOption
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules._error_texts import PORT_TAKEN
from gpudoctor_rules.launch._starts import gpus_of, meets_by_c10d, told_by_variables

if TYPE_CHECKING:
    from gpudoctor.api.pack import LaunchFile, Location, Word

_DEFAULT = 29500
"""The port of `torchrun` and `deepspeed` where none is given."""
_OF_A_NODE = 4
"""Many nodes have no more GPUs."""
_REMEDY = "Give each a port of its own, or leave the port out and write `--standalone`."


class MasterPortCollides(Rule):
    code = "GPU425"
    severity = Severity.WARNING
    errors = PORT_TAKEN
    stops = True

    def in_launch(self, launched: Launched) -> Findings:
        for file in launched.files:
            # On another machine the port is another one.
            here = [launch for launch in file.launches if launch.started_by("ssh") is None]
            ports = [(launch, *found) for launch in here if (found := _port(launched, file, launch)) is not None]
            for index, (launch, port, at) in enumerate(ports):
                # Elsewhere `srun` may choose another node for it.
                here_too = launch.started_by("srun") is not None and _on_one_node(launch)
                if launch.started_by("srun", "mpirun") is not None and not (here_too or _is_array(launch)):
                    continue
                if launch.background and launch.looped:
                    yield self.found(
                        at,
                        "The loop starts one training after the other without waiting for them, all with port "
                        f"{port}: only the first one can open it, and the next ends with `EADDRINUSE`.",
                        remedy="Increment the port in the loop, or leave it out and write `--standalone`.",
                    )
                    continue
                before = next((each for each in ports[:index] if _together(each[0], launch) and each[1] == port), None)
                if before is not None:
                    yield self.found(
                        at,
                        f"Port {port} is taken: a training that was started before in the background has it, and "
                        "this one ends with `EADDRINUSE`.",
                        remedy=_REMEDY,
                        because=[("the other training gets it here", before[2])],
                    )
                elif _is_array(launch) and port != 0:
                    yield self.found(
                        at,
                        f"All jobs of the array use port {port}: two that SLURM places on one node meet there, and "
                        "the second ends with `EADDRINUSE`.",
                        remedy="Make the port depend on the job: `$((20000 + SLURM_JOB_ID % 20000))`.",
                        because=[("the job is an array", launch.directives["array"].at)],
                    )


def _together(one: ProgramStart, other: ProgramStart) -> bool:
    """The first may still run when the second begins."""
    # What is typed into one terminal runs in turn.
    typed, after = one.started_by("typed"), other.started_by("typed")
    if typed is not None and after is not None and _target(typed) == _target(after):
        return False
    return one.background and one.waits == other.waits and not (one.conditional or other.conditional)


def _target(typed: Starter) -> str | None:
    option = typed.options.get("target")
    return option.text if option is not None else None


def _on_one_node(launch: ProgramStart) -> bool:
    """The whole job has one node, which all of its steps share."""
    nodes = launch.directives.get("nodes")
    return nodes is not None and nodes.text == "1"


def _is_array(launch: ProgramStart) -> bool:
    array = launch.directives.get("array")
    text = array.text if array is not None else None
    several = text is not None and ("-" in text or "," in text) and not text.endswith("%1")
    memory, gpus = launch.slurm("mem"), [gpus_of(launch.slurm(name)) or 0 for name in ("gres", "gpus-per-node", "gpus")]
    # Who asks for all that a node has shares it with nobody.
    alone = "exclusive" in launch.directives or max(gpus) >= _OF_A_NODE or (memory is not None and memory.text == "0")
    return several and not alone


def _port(launched: Launched, file: LaunchFile, launch: ProgramStart) -> tuple[int, Location] | None:
    if "standalone" in launch.options:
        return None
    bound = launch.environment.get("MASTER_PORT")
    if launch.launcher is StartedBy.PYTHON and launch.started_by("srun") is not None and bound is not None:
        # The program meets there itself.
        facts = launched.program_of(file, launch)
        meets = facts is not None and facts.trains
        number = _usual(bound.word)
        return (number, bound.at) if meets and number else None
    option: StartOption | None
    if launch.launcher in OF_TORCH:
        option = launch.option("master-port")
        endpoint = launch.option("rdzv-endpoint")
        if endpoint is not None:
            text = (endpoint.value.usual or "" if endpoint.value is not None else "").rpartition(":")[2]
            return (int(text), endpoint.at) if text.isdecimal() and int(text) else None
        if option is None and launch.closed and not meets_by_c10d(launch) and not told_by_variables(launch):
            return _DEFAULT, launch.word.at
    elif launch.launcher is StartedBy.ACCELERATE:
        option = launch.option("main-process-port")
    elif launch.launcher is StartedBy.DEEPSPEED:
        option = launch.option("master-port")
        if option is None and launch.closed:
            return _DEFAULT, launch.word.at
    else:
        return None
    number = _usual(option.value) if option is not None else None
    return (number, option.at) if option is not None and number else None


def _usual(word: Word | None) -> int | None:
    """The port where nobody sets another one from outside: `${PORT:-29500}` is one port for all that are started."""
    text = word.usual if word is not None else None
    return int(text) if text is not None and text.isdecimal() else None
