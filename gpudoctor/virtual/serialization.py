"""Files: what lives on a virtual GPU is saved as `cuda:0`, and loaded to where it was, or where `map_location` says."""

from __future__ import annotations

from typing import Any

import torch
from torch.serialization import register_package

from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.residence import UNKNOWN, place_of_storage, put_storage

_BEFORE_TORCH = 5
"""Torch's own packages ask from 10 on."""


def install(gpus: VirtualGpus) -> None:
    """Tell torch how to save and load storages of virtual GPUs."""

    def location(storage: Any) -> str | None:
        place = place_of_storage(storage)
        return f"cuda:{place}" if place is not UNKNOWN and place >= 0 else None

    def restored(storage: Any, where: str) -> Any:
        if not where.startswith("cuda"):
            return None
        # Says in torch's words where there is no such device.
        torch.serialization._validate_device(where, "cuda")
        return put_storage(storage, gpus.meant(where))

    register_package(_BEFORE_TORCH, location, restored)
