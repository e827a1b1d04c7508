"""Take the inventory of this node: a process for each part asks, within its own limit."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import TypeVar

from gpudoctor.plain import from_plain
from gpudoctor.probe.inventory.environment import variables
from gpudoctor.probe.inventory.facts import Driver, Gpu, GpuPair, Inventory, Network, System, TorchDevice, TorchView
from gpudoctor.probe.inventory.field import NOT_ASKED, Absence, absent
from gpudoctor.probe.inventory.meanings import Surroundings
from gpudoctor.probe.inventory.subprocess_query import Answers, Errand
from gpudoctor.probe.inventory.visible_gpus import visibility
from gpudoctor.record import dataclass, replace

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """Seconds for each part. torch takes long to import from a cold disk; eight GPUs take NVML about a second."""

    nvml: float = 20.0
    torch: float = 60.0
    torch_after_hang: float = 15.0
    """Where NVML got no answer: CUDA will get none either, but what torch was built with is told at once."""
    system: float = 10.0


def take_inventory(
    limits: Limits | None = None, *, environment: Mapping[str, str] | None = None, ask_torch: bool = True
) -> Inventory:
    """The inventory of this node. Never raises: what cannot be had says why, in its field or in `trouble`.

    `environment` stands for `os.environ`, in the processes that ask as well.
    """
    started = time.monotonic()
    limits = limits or Limits()
    answers: dict[str, Answers] = {}
    with contextlib.ExitStack() as stack:

        def send(part: str) -> Errand | Answers:
            try:
                return stack.enter_context(Errand(part, environment))
            except OSError as error:
                return Answers(trouble=f"{part}: no process could be started ({error.strerror})")

        system = send("system")
        answers["nvml"] = _await(send("nvml"), limits.nvml)
        # Not side by side with NVML: torch's hold on the GPUs would look like somebody else's.
        if ask_torch:
            limit = limits.torch_after_hang if answers["nvml"].trouble else limits.torch
            answers["torch"] = _await(send("torch"), limit)
        answers["system"] = _await(system, limits.system)
    return put_together(answers, dict(os.environ if environment is None else environment), started)


def _await(errand: Errand | Answers, limit: float) -> Answers:
    return errand if isinstance(errand, Answers) else errand.answers(limit)


def put_together(answers: Mapping[str, Answers], environment: Mapping[str, str], started: float) -> Inventory:
    """The inventory that the answers of the parts make; `started` is a `time.monotonic()`."""
    told = [each for answer in answers.values() for each in answer.told]
    trouble = {part: answer.trouble for part, answer in answers.items() if answer.trouble}

    def every(kind: type[T]) -> tuple[T, ...]:
        return tuple(from_plain(kind, data) for name, data in told if name == kind.__name__)

    def last(kind: type[T], otherwise: T) -> T:
        # A part may say the same thing twice, first without what takes long.
        return next(reversed(every(kind)), otherwise)

    unsaid = absent(trouble["nvml"], Absence.TIMED_OUT) if "nvml" in trouble else NOT_ASKED
    driver = last(Driver, Driver(unsaid, unsaid, unsaid))
    # A GPU whose answer never came is still a GPU.
    gpus = every(Gpu)
    gpus = (*gpus, *(Gpu(index, unsaid, unsaid) for index in range(len(gpus), driver.count.or_else(0))))
    devices = every(TorchDevice)
    where = visibility(gpus, devices, environment)
    around, network = last(System, System()), last(Network, Network())
    pairs = every(GpuPair)
    here = Surroundings(
        environment,
        where,
        interfaces=tuple(each.name for each in network.interfaces),
        cpus=_usable_cpus(around),
        adapters=tuple(port.device for port in network.rdma if port.state == "ACTIVE"),
        peer_access=any(pair.p2p_read.value == "ok" for pair in pairs),
    )
    return Inventory(
        driver=driver,
        gpus=gpus,
        pairs=pairs,
        torch=_torch(last(TorchView, TorchView()), trouble.get("torch", "")),
        torch_devices=devices,
        visibility=where,
        system=around,
        network=network,
        environment=variables(here),
        trouble=tuple(trouble.values()),
        seconds=round(time.monotonic() - started, 3),
    )


def _torch(view: TorchView, trouble: str) -> TorchView:
    """What torch did not come to say, it did not say because of the trouble."""
    if not trouble:
        return view
    unsaid = absent(trouble, Absence.TIMED_OUT)
    if not view.version.known:
        return TorchView(unsaid, unsaid, unsaid, unsaid, unsaid, unsaid, unsaid, unsaid)
    return view if view.available.known else replace(view, available=unsaid)


def _usable_cpus(system: System) -> int | None:
    counts = [len(system.cpus_usable.or_else(())), int(system.cpu_quota.or_else(0.0))]
    return min((count for count in counts if count), default=None)
