"""`torch.set_default_device`: torch's own would ask for a device that this build does not have."""

from __future__ import annotations

from typing import Any

import torch

from gpudoctor.virtual.operands import Operands


def install(operands: Operands) -> None:
    """Keep the default device where the mode looks for it."""

    def set_default_device(device: Any) -> None:
        operands.default = None if device is None else torch.device(device)

    def get_default_device() -> torch.device:
        return operands.default or torch.device("cpu")

    torch.set_default_device = set_default_device
    torch.get_default_device = get_default_device
