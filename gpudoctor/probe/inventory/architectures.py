"""Which GPUs a list of compiled architectures serves, by CUDA's rules of compatibility."""

from __future__ import annotations

import enum
import re

_ENTRY = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)$")


class Support(enum.Enum):
    """How kernels come to a GPU."""

    READY = "ready"
    COMPILED_LATE = "compiled late"
    """Only as PTX, which the driver compiles at the first use."""
    NONE = "none"


def support(capability: str, built: tuple[str, ...]) -> Support:
    """What a GPU of `capability` ("9.0") gets from kernels built for `built` ("sm_80", "compute_90").

    A binary runs on its own major version from its minor version on; PTX on everything newer. A suffix `a` ties it
    to one capability, `f` to one family.
    """
    major, _, minor = capability.partition(".")
    own = (int(major), int(minor or 0))
    late = False
    for entry in built:
        match = _ENTRY.match(entry)
        if match is None:
            # AMD's (gfx90a), or a form that is newer than this code: nothing can be told.
            return Support.READY
        kind, theirs, suffix = match[1], (int(match[2]), int(match[3])), match[4]
        if suffix == "a":
            fits = own == theirs
        elif kind == "sm" or suffix == "f":
            fits = own[0] == theirs[0] and own[1] >= theirs[1]
        else:
            fits = own >= theirs
        if fits and kind == "sm":
            return Support.READY
        late = late or fits
    return Support.COMPILED_LATE if late else Support.NONE


def is_older(capability: str, built: tuple[str, ...]) -> bool:
    """Whether a GPU is older than all that was built for."""
    major, _, minor = capability.partition(".")
    matches = [match for entry in built if (match := _ENTRY.match(entry))]
    return bool(matches) and (int(major), int(minor or 0)) < min((int(each[2]), int(each[3])) for each in matches)
