"""Watch every GPU while it trains: utilisation, and the state of clocks and links that only counts under load.

A process of its own asks NVML: a thread would stand in the parent's way, and a driver that hangs would keep it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from gpudoctor.plain import from_plain
from gpudoctor.probe.inventory.facts import Glance, Moment
from gpudoctor.probe.inventory.nvml_calls import Nvml, first, load
from gpudoctor.probe.inventory.slowdown import in_words
from gpudoctor.probe.inventory.subprocess_query import Answers, Errand

_EVERY = 0.25
"""Seconds. The driver's own window is between a sixth of a second and a second."""
_AT_MOST = 3600.0
_READY_WITHIN = 3.0


def read() -> Iterator[str | Glance]:
    """Every GPU, four times a second, until this process is ended."""
    yield "NVML"
    pynvml = load()
    nvml = Nvml(pynvml)
    pynvml.nvmlInit()
    handles = [handle for index in range(pynvml.nvmlDeviceGetCount()) if (handle := _handle(nvml, index)) is not None]
    uuids = [nvml.ask("DeviceGetUUID", handle).or_else("") for handle in handles]
    started = time.monotonic()
    while time.monotonic() - started < _AT_MOST:
        yield Glance(tuple(_moment(nvml, uuid, handle) for uuid, handle in zip(uuids, handles, strict=True)))
        time.sleep(_EVERY)


def _handle(nvml: Nvml, index: int) -> Any:
    return nvml.ask("DeviceGetHandleByIndex", index).value


def _moment(nvml: Nvml, uuid: str, handle: Any) -> Moment:
    reasons = first(
        lambda: nvml.ask("DeviceGetCurrentClocksEventReasons", handle),
        lambda: nvml.ask("DeviceGetCurrentClocksThrottleReasons", handle),
    )
    return Moment(
        uuid=uuid,
        time=time.time(),
        utilization=nvml.ask("DeviceGetUtilizationRates", handle).then(lambda rates: int(rates.gpu)),
        clock_sm=nvml.ask("DeviceGetClockInfo", handle, 1),
        temperature=nvml.ask("DeviceGetTemperature", handle, 0),
        power=nvml.ask("DeviceGetPowerUsage", handle).then(lambda milliwatts: milliwatts / 1000),
        pcie_generation=nvml.ask("DeviceGetCurrPcieLinkGeneration", handle),
        pcie_width=nvml.ask("DeviceGetCurrPcieLinkWidth", handle),
        slowed_by=reasons.then(in_words),
    )


class UtilisationSampler:
    """Samples the utilisation of every GPU a few times a second. Never raises.

    A context manager; `samples` maps a GPU's UUID to pairs of (`time.time()`, percent), `why_not` says why it is empty.
    `moments` holds all that was seen. Both are filled at the end.
    """

    def __init__(self, uuids: Sequence[str]) -> None:
        self.samples: dict[str, list[tuple[float, float]]] = {uuid: [] for uuid in uuids}
        self.moments: tuple[Moment, ...] = ()
        self.why_not = "nobody has watched yet"
        self._errand: Errand | None = None

    def __enter__(self) -> UtilisationSampler:
        if not self.samples:
            self.why_not = "there is no GPU to watch"
            return self
        try:
            self._errand = Errand("sample")
        except OSError as error:
            self.why_not = f"no process could be started to watch ({error.strerror})"
            return self
        self._errand.await_first("Glance", _READY_WITHIN)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._errand is not None:
            with self._errand as errand:
                self._take(errand.recall())

    def _take(self, answers: Answers) -> None:
        glances = [from_plain(Glance, data) for name, data in answers.told if name == "Glance"]
        self.moments = tuple(moment for glance in glances for moment in glance.moments)
        for moment in self.moments:
            if moment.uuid in self.samples and moment.utilization.value is not None:
                self.samples[moment.uuid].append((moment.time, float(moment.utilization.value)))
        self.why_not = "" if any(self.samples.values()) else self._reason(answers)

    def _reason(self, answers: Answers) -> str:
        if self.moments:
            return f"utilisation is not available, because {self.moments[0].utilization.why_not}"
        return answers.trouble or "no sample came in time"
