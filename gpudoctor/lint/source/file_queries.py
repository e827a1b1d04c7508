"""Questions to the file system that decide what a program consists of. Who wants to can have them written down.

A result that was kept holds as long as the same questions have the same answers: that a file is not there, so that
Python looks further, is an answer too.
"""

from __future__ import annotations

import os
from _contextvars import ContextVar  # `contextvars` is a file that says just this
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

try:
    # A tenth of the time that importing hashlib takes, which loads OpenSSL.
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

from gpudoctor.lint.source.size_limits import MAX_FILE_BYTES, MAX_NOTEBOOK_BYTES, MAX_SETUP_BYTES

A = TypeVar("A")
KeptAnswers = dict[tuple[str, str], object]
"""Answers by the question's name and the path that it was asked about."""

_QUESTIONS: dict[str, Callable[[str], object]] = {}
# The context holds these, so that each thread notes and remembers its own.
_NOTED: ContextVar[KeptAnswers | None] = ContextVar("noted answers", default=None)
_REMEMBERED: ContextVar[KeptAnswers | None] = ContextVar("remembered answers", default=None)


def most_bytes(path: str) -> int:
    """How large a file may be."""
    return MAX_NOTEBOOK_BYTES if path.endswith(".ipynb") else MAX_FILE_BYTES


def digest_of(data: bytes) -> str:
    """What stands for these bytes."""
    return str(blake2b(data, digest_size=16).hexdigest())


def question(answer: Callable[[str], A]) -> Callable[[str], A]:
    """Make a question of a function of one path that looks at the file system and at nothing else."""
    name = answer.__name__
    _QUESTIONS[name] = answer

    def ask(path: str) -> A:
        remembered = _REMEMBERED.get()
        if remembered is not None and (name, path) in remembered:
            found = cast("A", remembered[name, path])
            note(name, path, found)
            return found
        # What it asks in turn is a part of its own answer.
        token = _NOTED.set(None)
        try:
            found = answer(path)
        finally:
            _NOTED.reset(token)
        note(name, path, found)
        if remembered is not None:
            remembered[name, path] = found
        return found

    return ask


def note(name: str, path: str, answer: object) -> None:
    """Write an answer down."""
    noted = _NOTED.get()
    if noted is not None:
        noted[name, path] = answer


def answer_to(name: str, path: str) -> object:
    """What the answer is now; None to a question that is not known."""
    asked = _QUESTIONS.get(name)
    return asked(path) if asked is not None else None


@contextmanager
def remembering() -> Iterator[None]:
    """Inside, the file system is asked each question once: all files of a folder have the same project around them."""
    outer = _REMEMBERED.get()
    token = _REMEMBERED.set({} if outer is None else outer)
    try:
        yield
    finally:
        _REMEMBERED.reset(token)


@contextmanager
def noting() -> Iterator[KeptAnswers]:
    """Inside, all questions and answers are written down."""
    noted: KeptAnswers = {}
    token = _NOTED.set(noted)
    try:
        yield noted
    finally:
        _NOTED.reset(token)


@question
def is_file(path: str) -> bool:
    """A file, or a link to one."""
    return os.path.isfile(path)


@question
def is_folder(path: str) -> bool:
    """A folder, or a link to one."""
    return os.path.isdir(path)


def folder_above(place: str, marks: Iterable[str]) -> str | None:
    """The nearest folder above a place that holds a file or a folder of one of these names."""
    while place != (folder := os.path.dirname(place)):
        paths = [os.path.join(folder, mark) for mark in marks]
        if any(is_file(path) or is_folder(path) for path in paths):
            return folder
        place = folder
    return None


@question
def real_path(path: str) -> str:
    """The path without links."""
    return os.path.realpath(path)


def first_bytes(path: str) -> bytes | None:
    """What a file holds, up to one byte more than is read of it; None where there is no file or it cannot be opened."""
    # A pipe would wait for ever.
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read(most_bytes(path) + 1)
    except OSError:
        return None


def content(path: str) -> str:
    """The digest of a file; empty where it is not one that is read."""
    data = first_bytes(path)
    return digest_of(data) if data is not None and len(data) <= most_bytes(path) else ""


CONTENT = content.__name__
_QUESTIONS[CONTENT] = content


def beginning_of(path: str) -> str:
    """The text of a file of settings, as far as it is looked at; empty where there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(MAX_SETUP_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
