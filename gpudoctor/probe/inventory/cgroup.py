"""What the container or the cluster allows this process: limits of its control groups, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpudoctor.probe.inventory.field import Field, absent, known
from gpudoctor.probe.inventory.system_files import lines_in

ROOT = Path("/sys/fs/cgroup")
SELF = Path("/proc/self/cgroup")
# Version 1 writes "no limit" as the largest number of pages it can count.
_NO_LIMIT = 2**60


def cpu_quota() -> Field[float]:
    """CPUs that may be used at a time."""
    quotas = [quota for folder in _folders("cpu") if (quota := _quota(folder)) is not None]
    return known(min(quotas)) if quotas else absent("no limit is set")


def memory_limit() -> Field[int]:
    """Bytes of memory; whoever takes more is killed."""
    names = ("memory.max", "memory.limit_in_bytes")
    limits = [int(text) for folder in _folders("memory") for name in names if (text := _line(folder / name)).isdigit()]
    real = [limit for limit in limits if limit < _NO_LIMIT]
    return known(min(real)) if real else absent("no limit is set")


def _quota(folder: Path) -> float | None:
    words = _line(folder / "cpu.max").split() or [_line(folder / f"cpu.cfs_{each}_us") for each in ("quota", "period")]
    # "max" or -1 stand for no limit.
    if len(words) != 2 or not all(word.isdigit() for word in words) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


def _folders(controller: str) -> Iterator[Path]:
    """The groups of this process and all above them: the tightest limit holds."""
    for line in lines_in(SELF):
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        base = ROOT / controller if controllers else ROOT
        group = Path(path.lstrip("/"))
        # In a container the own group is mounted as the root, and the path leads nowhere.
        yield from (base / each for each in (group, *group.parents))


def _line(path: Path) -> str:
    lines = lines_in(path)
    return lines[0].strip() if lines else ""
