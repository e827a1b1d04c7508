"""Where each check belongs, as in `gpu/sanity/device-arithmetic`: a domain, and a level as burn-in suites have them.

The levels build on each other: `sanity` says whether something is there and sound at all, `validation` whether it gives
the right results, `performance` how fast it is, `stress` whether that stays so under load. The domains are `node` (the
machine and its software), `gpu`, `link` (what joins GPUs and ranks) and `training`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.probe.results import Check

_MEMBERS = {
    "node/sanity": (
        "ranks-start architecture-compiled-late architecture-missing container-lost-gpus container-without-gpus "
        "cpu-only-torch cpus-far cpus-few cuda-fails cuda-hangs driver-forbidden driver-hangs driver-mismatch "
        "driver-missing driver-older-than-wheel driver-too-old fabric-manager files-few "
        "host-unresolved memlock-limited nccl-missing nvml-missing shm-small torch-broken torch-missing"
    ),
    "gpu/sanity": (
        "device-arithmetic compute-mode gpu-draws gpu-in-use gpu-left-out gpu-lost gpu-missing hot "
        "memory-errors mig mig-without-instances page-retirement-pending persistence-off power-limit-lowered "
        "recovery-needed row-remapping-failed row-remapping-pending slowed-down xid"
    ),
    "gpu/performance": "devices-alike gpus-busy",
    "gpu/stress": "numeric-repeat soak",
    "link/sanity": (
        "link-narrow link-slow mixed-models numa-apart nvlink-down p2p-off p2p-refused-by-cuda slot-narrow slot-old"
    ),
    "link/validation": "collectives messages peer-copies",
    "link/performance": "bandwidth-sweep bus-bandwidth",
    "training/sanity": "training-works",
    "training/validation": (
        "checkpoint cpu-gpu-split data-parallel-gradients data-parallel-primitives gradients-match "
        "identical-parameters shards sync-batchnorm"
    ),
    "training/performance": "ddp-efficiency ddp-strong-efficiency epoch-time exposed-communication",
}
_PLACES = {name: place for place, names in _MEMBERS.items() for name in names.split()}
_FAMILIES = {
    "variable-": "node/sanity",
    "step-": "training/performance",
    "epoch-": "training/performance",
    "require ": "required",
}
"""Variables and stages of training that broke stand under their own names; so do the conditions of `--require`."""


def full_name(name: str) -> str:
    """The name of a check behind its domain and level; the name alone where nobody has said where it belongs."""
    family = next((place for start, place in _FAMILIES.items() if name.startswith(start)), "")
    place = _PLACES.get(name, family)
    return f"{place}/{name.removeprefix('require ')}" if place else name


def with_full_names(checks: Iterable[Check]) -> tuple[Check, ...]:
    """The checks as they stand in a report."""
    return tuple(replace(check, full_name=full_name(check.name)) for check in checks)
