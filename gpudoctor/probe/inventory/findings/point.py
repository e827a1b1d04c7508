"""A weak point of a machine, and the few words that all of them share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.probe.inventory.facts import Gpu, Inventory
from gpudoctor.record import dataclass, replace

CONTEXT = 200 * 2**20
"""Bytes that a program takes before it has allocated anything."""
UNDER_LOAD = 50
"""Percent of utilisation from which a GPU counts as working."""


@dataclass(frozen=True)
class WeakPoint:
    """One thing that is wrong, or will be in the way.

    `what` is the observation and `why` what it does to training; `figure`, in `unit`, was seen where `expectation`
    was hoped for, and `source` is where the expectation comes from. `remedy` is what to do, with a command to type
    where there is one. `gpus` are NVML indices, empty where the whole machine is meant. `info` is no complaint.

    What is said of one GPU leaves its name open, as `{gpus}`, `{ids}`, `{is}` and `{has}`: see `merged`.
    """

    name: str
    severity: Severity
    what: str
    why: str
    remedy: str = ""
    figure: float | None = None
    unit: str = ""
    expectation: str = ""
    source: str = ""
    gpus: tuple[int, ...] = ()

    @property
    def message(self) -> str:
        return f"{self.what}: {self.why}"


def merged(points: Iterable[WeakPoint]) -> Iterator[WeakPoint]:
    """What is said of several GPUs in the same words is said once, and names are filled in."""
    alike: dict[WeakPoint, list[int]] = {}
    for point in points:
        alike.setdefault(replace(point, gpus=()), []).extend(point.gpus)
    for point, gpus in alike.items():
        yield _filled(replace(point, gpus=tuple(sorted(gpus))))


def _filled(point: WeakPoint) -> WeakPoint:
    if not point.gpus:
        return point
    several = len(point.gpus) > 1
    words = {
        "{gpus}": named(point.gpus),
        "{ids}": ",".join(map(str, point.gpus)),
        "{is}": "are" if several else "is",
        "{has}": "have" if several else "has",
    }

    def fill(text: str) -> str:
        for word, filling in words.items():
            text = text.replace(word, filling)
        return text

    return replace(point, what=fill(point.what), why=fill(point.why), remedy=fill(point.remedy))


def works(gpu: Gpu) -> bool:
    """Whether somebody computes on it, so that clocks and links are turned up. The load alone is no sign: a GPU that
    the driver has just woken up says that it is 100 % busy."""
    used = gpu.memory.get().used if gpu.memory.known else 0
    return gpu.utilization.or_else(0) >= UNDER_LOAD and used >= CONTEXT


def visible_gpus(inventory: Inventory) -> tuple[Gpu, ...]:
    """The GPUs that programs may use; all of them where nothing tells which."""
    chosen = {each.gpu.value for each in inventory.visibility.devices}
    if None in chosen or (not chosen and inventory.visibility.variable is None):
        return inventory.gpus
    return tuple(gpu for gpu in inventory.gpus if gpu.index in chosen)


def named(gpus: Iterable[int]) -> str:
    """`GPU 3`, `GPUs 0-3 and 7`."""
    indices = sorted(set(gpus))
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    listed = f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"GPU{'' if len(indices) == 1 else 's'} {listed}"


def gib(amount: float) -> str:
    """Bytes as people read them: `64 MiB`, `79.6 GiB`."""
    if amount < 2**30:
        return f"{amount / 2**20:.0f} MiB"
    return f"{amount / 2**30:.1f} GiB" if amount < 100 * 2**30 else f"{amount / 2**30:.0f} GiB"


def slowed_down(gpu: Gpu, clock: int | None, best: int | None, how: str) -> WeakPoint:
    """A GPU whose clocks are held down; in MHz where they are known, `how` ends the sentence."""
    speed = f" to {clock} of {best} MHz" if clock and best else ""
    return WeakPoint(
        "slowed-down",
        Severity.WARNING,
        f"{{gpus}} {{is}} slowed down{speed}{how}",
        "with several GPUs all of them wait for the slowest",
        "look after cooling and power; nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {ids}",
        figure=float(clock) if clock else None,
        unit="MHz",
        expectation=f"{best} MHz" if best else "",
        source="NVML, clock event reasons; those that Azure's node health checks warn of",
        gpus=(gpu.index,),
    )
