"""Where there is CUDA there is none of these."""

from typing import Literal

def is_available() -> Literal[False]: ...
