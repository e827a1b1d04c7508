"""One process uses a distributed sampler, so it sees one shard of the data and nobody sees the rest.

## What goes wrong

A `DistributedSampler` with `num_replicas=N` gives out one shard of N, and expects N processes to take them all. In a
program that runs as one process (plain, or with `DataParallel`, which splits each batch over the GPUs of that one
process) there is nobody to take the others: (N - 1)/N of the data is never seen. No error is raised, and the epochs
look fast.

## Fix

Choose one. Either keep the one process and give the loader `shuffle=True` in place of the sampler, or start one process
for each GPU with `torchrun` and wrap the model in `DistributedDataParallel`. No automatic fix, since the program alone
does not say which of the two is meant.

## Silent when

`num_replicas` is 1; the numbers come from a framework that counts processes itself, such as Horovod; the sampler
belongs to the branch that starts several processes, and `DataParallel` to the other one. A sampler without
`num_replicas` and `rank` fails at once where there is no process group: that is process-group-missing.

## Sources

hellojialee/Improved-Body-Parts#33, Lightning-AI/pytorch-lightning#268,
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.data import Sampler
from gpudoctor.lint.domain.rank import Size
from gpudoctor.lint.domain.value import Values
from gpudoctor.lint.events.data_loading import MakeSampler
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import InitGroup, Spawn
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import NO_GROUP
from gpudoctor_rules.data._passes import first_name


class SamplerWithoutProcessGroup(Rule):
    code = "GPU304"
    severity = Severity.ERROR
    shows_when = ("not distributed", "ranks.training_passes")
    errors = NO_GROUP
    needs = (MakeSampler,)

    def in_code(self, program: Program) -> Findings:
        if (
            not program.whole
            or program.managed_by
            # A group anywhere, even on another path, makes the sampler part of that other way to run.
            or program.has(InitGroup, Spawn)
            or program.world is not LaunchWorld.SINGLE
        ):
            return
        for event in program.events(MakeSampler):
            sampler = event.sampler
            if not sampler.distributed or not _takes_one_share(program, sampler):
                continue
            yield self.found(
                at=sampler.place,
                message=f"`{sampler.label}` takes one of {_count(sampler)} shards of "
                f"{first_name(sampler.dataset, 'the data')}, and there is no other process to take the rest: that is "
                "never seen.",
                remedy="Leave the sampler out and give the loader `shuffle=True`, or start one process for each GPU "
                "with torchrun and wrap the model in DistributedDataParallel.",
                because=[("DataParallel runs all GPUs from this one process", _data_parallel(program, event))],
            )

    def in_run(self, recording: Recording) -> Findings:
        if recording.distributed:
            return
        for rank in recording.ranks:
            for each in rank.training_passes[:1]:
                if each.replicas is not None and each.replicas > 1 and each.made is not None:
                    yield self.found(
                        each.made,
                        f"One process trains with a sampler for {each.replicas}: it sees "
                        f"{each.batches * (each.batch_size or 1)}"
                        f" of {each.size} samples in an epoch, and nobody sees the rest.",
                        remedy="Leave the sampler out where there is one process, and write `shuffle=True`.",
                    )


def _takes_one_share(program: Program, sampler: Sampler) -> bool:
    """Both numbers are given, and there is more than one shard."""
    # Without both numbers it asks the group and fails at once: that is GPU401.
    if _absent(sampler.rank) or _absent(sampler.replicas) or sampler.replicas is None:
        return False
    for value in sampler.replicas:
        # 0 stands for "not set" in many settings, and 1 share is all of the data.
        several = isinstance(value, Size) or (value.is_constant and value.in_python not in (0, 1))
        # A number from the settings is taken for several only where the program wraps for several GPUs, and is not
        # started as several processes as well: those have the number, and a single one has 1.
        if not several and not (value.config and program.has(Wrap) and program.worlds == {LaunchWorld.SINGLE}):
            return False
    return True


def _absent(values: Values | None) -> bool:
    # None makes the sampler ask the group, as if it had not been given.
    return values is None or values.any(lambda value: value.is_none)


def _count(sampler: Sampler) -> str:
    only = sampler.replicas.single if sampler.replicas is not None else None
    if only is not None and only.is_constant:
        return str(only.in_python)
    label = only.label if only is not None else ""
    return f"`{label}`" if label else "several"


def _data_parallel(program: Program, event: MakeSampler) -> Location | None:
    wraps = (wrap for wrap in program.events(Wrap) if wrap.is_data_parallel)
    # DataParallel and the sampler may belong to two branches of one switch.
    return next((wrap.location for wrap in wraps if not wrap.condition.excludes(event.condition)), None)
