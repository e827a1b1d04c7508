"""Lint as the tests call it: the command itself, in this process, with its findings as plain data."""

import contextlib
import io
import json
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from gpudoctor import cli
from gpudoctor.cli import settings
from gpudoctor.registry import find_rules


class Seen(NamedTuple):
    """A finding, as the JSON format shows it. `path` is relative to the folder that was worked in."""

    code: str
    severity: str
    path: str
    line: int
    message: str
    remedy: str
    related: tuple[tuple[str, int], ...] = ()
    """Path and line of the places that it names besides."""
    world: str = ""
    """How the program must be launched for it to happen, an empty text where that does not matter."""


class Linted(NamedTuple):
    """What lint says of a program."""

    seen: list[Seen]
    causes: set[str]
    """Why rules were silent."""
    told: list[str]
    """The lines on standard error."""


def linted(entry: Path, *, folder: Path, select: tuple[str, ...] = (), extend: tuple[str, ...] = ()) -> Linted:
    """What is said of the program that starts at `entry`, by all default rules, or by those of `select`."""
    arguments = ["lint", "--output-format=json", "--no-cache", "--fail-on=never", "--jobs=1"]
    arguments += [f"--select={code}" for code in select] + [f"--extend-select={code}" for code in extend]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), working_in(folder), _in_short():
        status = cli.main([*arguments, os.path.relpath(entry, folder)])
    assert status == 0, f"lint ended with {status}:\n{err.getvalue()}"
    document = json.loads(out.getvalue())
    causes = {each["cause"] for program in document["programs"] for each in program["silent_for"]}
    return Linted(list(map(_seen, document["findings"])), causes, err.getvalue().splitlines())


_find_rules_once = cache(find_rules)


@contextlib.contextmanager
def same_rules() -> Iterator[pytest.MonkeyPatch]:
    """Inside, the command has the rules that were found first: to look for packs of others takes as long as many."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(settings, "find_rules", _find_rules_once)
        yield patched


@contextlib.contextmanager
def _in_short() -> Iterator[None]:
    """Inside, no edits are written either, which nobody looks at here: together a quarter of what a fixture takes."""
    with same_rules() as patched:
        patched.setattr(settings, "WITH_EDITS", frozenset[str]())
        yield


def lint(entry: Path, *, folder: Path, select: tuple[str, ...] = (), extend: tuple[str, ...] = ()) -> list[Seen]:
    """The findings of all default rules, or of `select`, in the program that starts at `entry`."""
    return linted(entry, folder=folder, select=select, extend=extend).seen


def places(folder: Path) -> list[str]:
    """Place and code of each finding in the program of a folder, advice left out."""
    found = lint(folder / "train.py", folder=folder)
    return [f"{seen.path}:{seen.line} {seen.code}" for seen in found if seen.severity != "info"]


def _seen(finding: dict[str, object]) -> Seen:
    return Seen(
        code=str(finding["code"]),
        severity=str(finding["severity"]),
        path=str(finding["path"]),
        line=int(str(finding["line"])),
        message=str(finding["message"]),
        remedy=str(finding.get("remedy", "")),
        related=tuple((str(each["path"]), int(each["line"])) for each in finding["related"]),  # type: ignore[attr-defined]
        world=str(finding["world"]),
    )


@contextlib.contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Inside, this is the working directory."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
