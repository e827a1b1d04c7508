"""Several GPUs are trained on Linux."""

from typing import Literal

def system() -> Literal["Linux"]: ...
