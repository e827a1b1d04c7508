"""Training on several GPUs is what is judged: other branches are for laptops."""

from typing import Literal

def is_built() -> Literal[True]: ...
