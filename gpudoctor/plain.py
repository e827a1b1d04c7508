"""Records as what JSON knows: dictionaries, lists, strings and numbers."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any

from gpudoctor.record import fields


def plain(value: Any) -> Any:
    """Records, enums, mappings and sequences as what JSON knows; numbers that it does not know become null."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
