"""Notebooks as the tests make them: the text that Jupyter writes, and that others do."""

import json
from typing import Any

PYTHON = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "version": "3.11.9"},
}
WRITERS: dict[str, dict[str, Any]] = {
    "jupyter": {"indent": 1, "ensure_ascii": False},
    "four": {"indent": 4, "ensure_ascii": True},
    "tabs": {"indent": "\t", "ensure_ascii": False, "sort_keys": True},
    "one line": {"ensure_ascii": True},
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
}
"""How `json.dumps` writes them."""


def cell(source: str, kind: str = "code", *, as_text: bool = False, **more: Any) -> dict[str, Any]:
    """A cell, its source as a list of lines or as one text."""
    lines = [f"{line}\n" for line in source.split("\n")]
    lines[-1] = lines[-1].removesuffix("\n")
    found = {"cell_type": kind, "metadata": {}, "source": source if as_text else [line for line in lines if line]}
    if kind == "code":
        found |= {"execution_count": 3, "outputs": [{"name": "stdout", "output_type": "stream", "text": ["größer\n"]}]}
    return {**found, **more}


def notebook(
    *cells: dict[str, Any] | str, writer: str = "jupyter", end: str = "\n", metadata: dict[str, Any] | None = None
) -> str:
    """The text of a notebook; a cell that is no more than text is one of code."""
    document = {
        "cells": [cell(each) if isinstance(each, str) else each for each in cells],
        "metadata": PYTHON if metadata is None else metadata,
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, **WRITERS[writer]) + end
