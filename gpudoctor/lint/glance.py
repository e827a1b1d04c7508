"""A glance at a file: whether it starts something, and whether it says anything, without executing it on paper."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from gpudoctor.lint.entries import Start, start_of
from gpudoctor.lint.source.dismiss import says_nothing
from gpudoctor.lint.source.file import SourceFile, Unreadable, read_source
from gpudoctor.lint.source.layout import is_package
from gpudoctor.lint.source.registering import only_registers


class Glance(NamedTuple):
    """What was seen of a file: `path` without links, and `shown` to users.

    `quiet` says that it has no entry and is about nothing that a built-in rule is about, `commented` that comments in
    it speak to us.
    """

    path: str
    shown: str
    start: Start
    quiet: bool
    commented: bool


_NOQA = re.compile(r"noqa[^\n]*gpu")


def glance(source: SourceFile) -> Glance:
    """Look at a file that was read."""
    start = start_of(source.tree, os.path.basename(source.path))
    # Nobody imports a notebook: what it does is what it is for.
    if source.cells is not None and start is Start.WHEN_RUN:
        start = Start.MAIN
    if start is Start.WHEN_RUN and is_package(os.path.dirname(source.path)) and only_registers(source.tree):
        start = Start.NEVER
    # That a cell cannot be read is said by whoever examines the notebook.
    quiet = start is Start.NEVER and not source.flaws and says_nothing(source)
    return Glance(source.path, source.shown, start, quiet, _is_commented(source.text.lower()))


def _is_commented(text: str) -> bool:
    # Looking for words in small letters is ten times as fast as a pattern that takes all letters.
    return "gpudoctor" in text or ("noqa" in text and _NOQA.search(text) is not None)


def glance_at_all(paths: Sequence[str]) -> list[Glance | Unreadable]:
    """Look at many files, one after the other: no more than one tree is kept at a time."""
    was_enabled = gc.isenabled()
    # Trees hold no cycles: the collector would look at them again and again for nothing.
    gc.disable()
    try:
        return [_glance_at(path) for path in paths]
    finally:
        if was_enabled:
            gc.enable()


def _glance_at(path: str) -> Glance | Unreadable:
    # A link that leads nowhere is known by its own name.
    source = read_source(os.path.realpath(path) if os.path.exists(path) else path)
    return glance(source) if isinstance(source, SourceFile) else source
