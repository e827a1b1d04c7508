"""What all spellings of a name have in common, by which it is looked up."""

from __future__ import annotations

BEGINNING = 3
"""Letters of what is squeezed out of a name by which it is looked up."""


def squeezed(name: str) -> str:
    """`allreduce` of `AllReduce` and `all_reduce`."""
    return name.replace("_", "").lower()
