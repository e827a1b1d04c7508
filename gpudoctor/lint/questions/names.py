"""How messages and examples call values: as the program does, where it has a name for them."""

from __future__ import annotations

from gpudoctor.lint.domain.value import Value


def in_code(value: Value | None, otherwise: str) -> str:
    """How code calls a value, for an example of what to write: what has no name is called as most programs do."""
    label = value.label if value is not None else ""
    # `step(SGD(...))`: the label of what has no name is that of its constructor.
    made_by: str = getattr(value, "made_by", "") or ""
    nameless = not label.strip() or label.rpartition(".")[2] == made_by.rpartition(".")[2]
    return otherwise if nameless or label == f"the {otherwise}" else label


def name_of(value: Value | None, otherwise: str = "the model") -> str:
    """How the program calls a value, for a message: in backticks where that is code. It may have no name."""
    label = (value.label.strip() if value is not None else "") or otherwise
    # A label may also be a phrase of ours, such as "the model", which is no code.
    return f"`{label}`" if " " not in label or any(mark in label for mark in ".[") else label
