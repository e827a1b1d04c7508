"""The inventory: each field that the driver and torch tell here, and each that they do not, with the reason."""

import time
from typing import Any

from gpudoctor.plain import plain
from gpudoctor.probe.inventory.field import absent
from gpudoctor.probe.inventory.findings.judge import weak_points
from gpudoctor.probe.inventory.sampler import UtilisationSampler
from gpudoctor.probe.inventory.take import take_inventory
from gpudoctor.record import replace
from tests.on_gpu.part import Here, Step, Tell

ASKS = "what the driver and torch tell of this machine, idle and at work"
SECONDS = 60.0
GPUS = 1
_AT_WORK = 4.0
_MISSING = "not_available"


def _inventory(tell: Tell, here: Here) -> None:
    """Take the inventory; then watch the GPUs while the first one multiplies matrices."""
    found = take_inventory()
    # The names of the machine, its addresses and variables are nobody's business: this is committed.
    bare = replace(
        found,
        system=replace(found.system, host=absent("it was left out")),
        environment=(),
        network=type(found.network)((), (), absent("it was left out")),
    )
    tell("inventory", **plain(bare))
    tell("weak points", names=[point.name for point in weak_points(bare)])
    tell("fields", **_fields(plain(bare)))
    if not here.rehearsal:
        _at_work(tell, [gpu.uuid.or_else("") for gpu in bare.gpus])


def _fields(inventory: dict[str, Any]) -> dict[str, list[str]]:
    """The fields of the first GPU and of torch that have a value, and those that have none."""
    known, missing = [], []
    for part, values in (("gpu", next(iter(inventory["gpus"]), {})), ("torch", inventory["torch"])):
        for name, value in values.items():
            absent_here = isinstance(value, dict) and _MISSING in value
            (missing if absent_here else known).append(f"{part}.{name}")
            if absent_here:
                missing[-1] += f": {value['kind']}, {value[_MISSING]}"
    return {"known": known, "missing": missing}


def _at_work(tell: Tell, uuids: list[str]) -> None:
    import torch

    with UtilisationSampler(uuids) as sampler:
        a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        began = time.time()
        while time.time() - began < _AT_WORK:
            for _ in range(20):
                a @ a
            torch.cuda.synchronize()
    busy = {uuid: max((percent for _, percent in every), default=None) for uuid, every in sampler.samples.items()}
    tell("at work", busiest=busy, why_not=sampler.why_not, moments=[plain(each) for each in sampler.moments])


STEPS = (Step("inventory", 20.0, _inventory),)
