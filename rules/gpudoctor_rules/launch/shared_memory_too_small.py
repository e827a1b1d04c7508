"""A container in which several processes pass data to each other has 64 MB of shared memory.

## What goes wrong

Workers of a loader pass batches through `/dev/shm`, and so does NCCL between the GPUs of a machine. Docker and
Kubernetes give a container 64 MB of it. A worker then ends with `RuntimeError: DataLoader worker (pid 123) is killed by
signal: Bus error. It is possible that dataloader's workers are out of shared memory`, and NCCL with `Error while
creating shared memory segment /dev/shm/nccl-...`.

## Fix

`docker run --ipc=host` or `--shm-size=8g`; in Compose `shm_size: 8gb` or `ipc: host`; in Kubernetes a volume of
`emptyDir: {medium: Memory}` at `/dev/shm`.

## Silent when

The container is given more, or it is not known what it is given; the program is one process whose loaders have no
workers, as far as is known.

## Sources

pytorch/pytorch#5040, pytorch/pytorch#108861, open-mmlab/mmdetection#1997,
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.rule import Findings, Launched, Rule
from gpudoctor_rules.launch._starts import named, starts_several


class SharedMemoryTooSmall(Rule):
    code = "GPU431"
    severity = Severity.WARNING
    errors = (
        "RuntimeError: DataLoader worker (pid 123) is killed by signal: Bus error. It is possible that dataloader's "
        "workers are out of shared memory. Please try to raise your shared memory limit.",
        "RuntimeError: DataLoader worker (pid(s) 123) exited unexpectedly",
        "Error while creating shared memory segment /dev/shm/nccl-",
    )
    stops = True

    def in_launch(self, launched: Launched) -> Findings:
        for file, launch in launched.launches:
            container = launch.container
            if container is None or container.shared_memory != "":
                continue
            facts = launched.program_of(file, launch)
            workers = facts.workers if facts is not None else None
            if workers is None and not starts_several(launch):
                continue
            why = "the workers of its loader" if workers is not None else "the processes that it starts"
            yield self.found(
                container.at,
                f"{container.begins} gives {named(launch)} 64 MB of shared memory, in which {why} pass their data: a "
                "large batch ends it with `Bus error`.",
                remedy=f"Give it more: {container.remedy}.",
                because=[("the loader is made", workers)],
            )
