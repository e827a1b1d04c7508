"""The nodes of a training are told different places to meet, or one rank for all of them.

## What goes wrong

All nodes must get the address of one of them. `localhost` is another machine on each node, so that each waits at an
address where no other node connects; so is `$(hostname)` where every node asks it for itself. `--standalone` is for one
machine: with several nodes each begins alone. And where all nodes get `--node-rank=0`, as from a `$SLURM_NODEID` that
the batch file has filled in before `srun` starts anything, or from the `machine_rank: 0` that `accelerate config` has
written, all of them are node 0. The training hangs without a word.

## Fix

Ask for the address once: `--rdzv-backend=c10d --rdzv-endpoint=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head
-n 1):29500`. Such nodes agree on their ranks themselves. Otherwise have each node fill its rank in: `srun bash -c
'torchrun --node-rank=$SLURM_NODEID ...'`.

## Silent when

One node takes part, or it is not known how many; the address comes from outside.

## Sources

pytorch/pytorch#76069, pytorch/pytorch#73656, pytorch/pytorch#23074,
https://docs.pytorch.org/docs/stable/elastic/run.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.launchfiles.start import OF_TORCH, ProgramStart, StartedBy, StartOption
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules.launch._starts import LOCAL, meets_by_c10d, told_by_variables

if TYPE_CHECKING:
    from gpudoctor.api.pack import LaunchFile, SettingsFile, Word

_OWN_NAME = ("SLURMD_NODENAME", "HOSTNAME", "HOST")
_OF_TASK = ("SLURM_NODEID", "SLURM_PROCID")
_BY_TASK = "`srun bash -c 'torchrun --node-rank=$SLURM_NODEID ...'`"
_ONCE = (
    "Ask for the address once, for all nodes: "
    '`$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)`, or the name of the first node.'
)


class RendezvousDiffersPerNode(Rule):
    code = "GPU429"
    severity = Severity.ERROR
    errors = (
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.",
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect "
        "to (10.0.0.1, 29500).",
    )
    stops = True

    def in_launch(self, launched: Launched) -> Findings:
        for file, launch in launched.launches:
            if launch.launcher in OF_TORCH or launch.launcher is StartedBy.ACCELERATE:
                nodes = launch.nodes if launch.nodes is not None else launch.slurm_nodes
            else:
                nodes = launch.slurm_nodes
            settings = launched.accelerate_settings(file, launch)
            if nodes is None and settings is not None and "num-machines" not in launch.options:
                nodes = settings.number("num_machines")
            if nodes is None or nodes < 2:
                continue
            yield from self._of_address(file, launch, nodes)
            yield from self._of_rank(launch)
            yield from self._of_many(launch, nodes, settings)
        yield from self._of_files(launched)

    def _of_address(self, file: LaunchFile, launch: ProgramStart, nodes: int) -> Findings:
        alone = launch.option("standalone")
        if alone is not None:
            yield self.found(
                alone.at,
                f"`--standalone` is for one machine, and {nodes} nodes take part: each waits for the others forever.",
                remedy="Leave it out and give all nodes one `--rdzv-endpoint`.",
            )
            return
        word, at = _address(launch)
        if word is None or at is None:
            if (
                launch.launcher in OF_TORCH
                and launch.closed
                and launch.nodes is not None
                and not told_by_variables(launch)
            ):
                yield self.found(
                    launch.word.at,
                    f"{nodes} nodes take part and none is told where to meet: the default is `127.0.0.1`, where "
                    "each node waits for the others by itself.",
                    remedy=(
                        "Give all nodes the address of the first one, with `--rdzv-backend=c10d "
                        "--rdzv-endpoint=host:29500`."
                    ),
                )
            return
        text = word.text
        if text is not None and text.startswith(LOCAL):
            yield self.found(
                at,
                f"`{text}` is another machine on each of the {nodes} nodes: each node waits at its own address, where "
                "no other node connects.",
                remedy=_ONCE,
            )
        elif (own := _own_name(word)) and (launch.per_node or _run_on_each(file, launch)):
            yield self.found(
                at,
                f"Each node fills in `{own}` for itself, so that {nodes} nodes wait at {nodes} addresses.",
                remedy=_ONCE,
            )

    def _of_rank(self, launch: ProgramStart) -> Findings:
        srun, container = launch.started_by("srun"), launch.container
        option = launch.option("node-rank", "machine-rank")
        copies = container.copies if container is not None and container.alike else None
        nodes = (launch.slurm_nodes if srun is not None else copies) or 1
        if option is None or option.value is None or nodes < 2 or meets_by_c10d(launch):
            return
        of_task = [hole for hole in option.value.holes if hole.variable in _OF_TASK]
        early = [hole.variable for hole in of_task if srun is not None and (hole.early or not launch.per_node)]
        by = "`srun` starts this command" if container is None or srun is not None else f"{container.begins} runs"
        if option.number is not None:
            yield self.found(
                option.at,
                f"{by} on {nodes} nodes, and all get rank {option.number}: the others wait for a node that never "
                "comes.",
                remedy=f"Have each node fill in its own{': ' + _BY_TASK if srun is not None else ''}.",
            )
        elif early:
            yield self.found(
                option.at,
                f"The batch file fills in `${early[0]}` once, before `srun` starts anything: it is 0 there, and all "
                f"{nodes} nodes get it.",
                remedy=f"Have each node fill it in: `srun bash -c '... --node-rank=${early[0]} ...'`.",
            )

    def _of_many(self, launch: ProgramStart, nodes: int, settings: SettingsFile | None) -> Findings:
        """A loop over `ssh`, or `srun` with the settings of Accelerate, starts one command on all nodes."""
        option = launch.option("node-rank", "machine-rank")
        there = launch.started_by("ssh")
        looped = there is not None and launch.looped
        if meets_by_c10d(launch) or (settings is not None and settings.text("rdzv_backend") not in ("", "static")):
            return
        if option is not None and option.number is not None and looped:
            rank, at = option.number, option.at
        elif option is None and launch.closed and settings is not None and (looped or (launch.slurm_nodes or 0) > 1):
            rank, at = settings.number("machine_rank") or 0, launch.word.at
        else:
            return
        by = f"`{there.word.shown}`" if there is not None and there.word.shown != "ssh" else "The loop"
        written = settings.values.get("machine_rank") if settings is not None and option is None else None
        yield self.found(
            at,
            f"{by if looped else '`srun`'} starts this command on {nodes} nodes, and all get rank {rank}: the "
            "others wait for a node that never comes.",
            remedy="Give each node its own number." if not looped else "Count the nodes, and give each its number.",
            because=[("the rank stands here", written.at if written is not None else None)],
        )

    def _of_files(self, launched: Launched) -> Findings:
        """A file for each node, of which all say the same, their rank included."""
        alike: dict[tuple[object, ...], list[tuple[LaunchFile, StartOption]]] = {}
        counts: dict[tuple[object, ...], int] = {}
        for file, launch in launched.launches:
            option = launch.option("node-rank", "machine-rank")
            known = option is not None and option.number is not None and launch.closed
            if option is None or not known or launch.starters or launch.looped or (launch.nodes or 1) < 2:
                continue
            options = tuple(sorted((each.name, each.text) for each in launch.options.values()))
            words = tuple(each.text for each in launch.arguments)
            if not meets_by_c10d(launch) and None not in words:
                key: tuple[object, ...] = (launched.path_of(file, launch), options, words)
                counts[key] = launch.nodes or 1
                alike.setdefault(key, []).append((file, option))
        for key, found in alike.items():
            files = {file.path for file, _ in found}
            if key[0] is not None and len(files) == len(found) == counts[key]:
                option = found[-1][1]
                yield self.found(
                    option.at,
                    f"{len(found)} files start one of {len(found)} nodes each, and all say rank {option.text}: the "
                    "nodes wait for one that never comes.",
                    remedy="Give each its own number, or take it from an argument: `--node-rank=$1`.",
                    because=[("another one says so, too", found[0][1].at)],
                )


def _address(launch: ProgramStart) -> tuple[Word | None, Location | None]:
    option = launch.option("rdzv-endpoint", "master-addr", "main-process-ip")
    if option is not None:
        return option.value, option.at
    if launch.launcher in (StartedBy.PYTHON, StartedBy.DEEPSPEED) and "MASTER_ADDR" in launch.environment:
        bound = launch.environment["MASTER_ADDR"]
        return bound.word, bound.at
    return None, None


def _own_name(word: Word) -> str:
    for hole in word.holes:
        if hole.early:
            continue
        if hole.variable in _OWN_NAME:
            return f"${hole.variable}"
        if any(command[:1] == ("hostname",) for command in hole.commands):
            return f"$({' '.join(next(each for each in hole.commands if each[:1] == ('hostname',)))})"
    return ""


def _run_on_each(file: LaunchFile, launch: ProgramStart) -> bool:
    """Somebody runs the script on every node: it is told its rank from outside."""
    rank = launch.option("node-rank", "machine-rank")
    outside = rank is not None and rank.value is not None and bool(rank.value.holes)
    return outside and not file.is_batch and not launch.starters
