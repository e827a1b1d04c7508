"""What is not as it was around an earlier probe: another machine, driver, version of torch, or variable. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from gpudoctor.probe.results import Fact, ProbedMachine, ProbeReport

_SYSTEM = {
    "os": "the operating system",
    "kernel": "the kernel",
    "driver_version": "the NVIDIA driver",
    "python": "Python",
    "cpu": "the CPU",
    "cpus": "the number of CPUs",
    "cpu_quota": "the limit of CPUs",
    "memory_total": "the memory",
    "memory_limit": "the limit of memory",
    "shm_total": "/dev/shm",
    "container": "the container",
}
_BYTES = ("memory_total", "memory_limit", "shm_total")
_TORCH = {"version": "torch", "cuda": "CUDA in torch", "rocm": "ROCm in torch", "nccl": "NCCL", "cudnn": "cuDNN"}


def surroundings(old: ProbeReport, new: ProbeReport) -> Iterator[str]:
    """A sentence for each difference, the machine first."""
    yield from _ranks(old, new)
    before, after = ({machine.host: machine for machine in report.machine} for report in (old, new))
    if len(before) == len(after) == 1:
        yield from _machines(next(iter(before.values())), next(iter(after.values())))
        return
    if before.keys() != after.keys():
        yield f"other nodes: {_listed(before)} then, {_listed(after)} now"
    for host in sorted(before.keys() & after.keys()):
        yield from (f"on {host}: {each}" for each in _machines(before[host], after[host]))


def _ranks(old: ProbeReport, new: ProbeReport) -> Iterator[str]:
    if (old.world_size, old.backend, old.device) != (new.world_size, new.backend, new.device):
        yield f"{_setup(old)} then, {_setup(new)} now"


def _setup(report: ProbeReport) -> str:
    if not report.world_size:
        return "no ranks"
    return f"{report.world_size} ranks on {report.device or '?'} over {report.backend or '?'}"


def _machines(old: ProbedMachine, new: ProbedMachine) -> Iterator[str]:
    if old.host != new.host:
        yield f"another host: {old.host} then, {new.host} now"
    if _models(old) != _models(new):
        yield f"other GPUs: {_gpus(old)} then, {_gpus(new)} now"
    elif (lost := _uuids(old) - _uuids(new)) or _uuids(new) - _uuids(old):
        yield f"other GPUs of the same model: {len(lost)} of {len(old.gpus)} are not those of the earlier report"
    yield from _facts(old.system, new.system, _SYSTEM)
    yield from _facts(old.torch, new.torch, _TORCH)
    yield from _environment(old, new)


def _models(machine: ProbedMachine) -> Counter[str]:
    return Counter(str(gpu.facts["name"].value) if "name" in gpu.facts else "GPU" for gpu in machine.gpus)


def _gpus(machine: ProbedMachine) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(_models(machine).items())) or "none"


def _uuids(machine: ProbedMachine) -> set[str]:
    return {gpu.uuid for gpu in machine.gpus}


def _facts(old: Mapping[str, Fact], new: Mapping[str, Fact], names: Mapping[str, str]) -> Iterator[str]:
    for name, shown in names.items():
        before, after = old.get(name), new.get(name)
        if before is not None and after is not None and before.value != after.value:
            yield f"{shown}: {_value(name, before)} then, {_value(name, after)} now"


def _value(name: str, fact: Fact) -> str:
    if fact.value is None:
        return f"unknown ({fact.because})" if fact.because else "unknown"
    if name in _BYTES and isinstance(fact.value, (int, float)):
        return f"{fact.value / (1 << 30):.1f} GiB"
    return ", ".join(fact.value) if isinstance(fact.value, list) else str(fact.value)


def _environment(old: ProbedMachine, new: ProbedMachine) -> Iterator[str]:
    before, after = ({each.name: each.value for each in machine.environment} for machine in (old, new))
    for name in sorted(before.keys() | after.keys()):
        one, other = (f"`{each[name]}`" if name in each else "not set" for each in (before, after))
        if one != other:
            yield f"{name} was {one} then, is {other} now"


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) or "none"
