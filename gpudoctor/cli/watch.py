"""`gpudoctor lint --watch`: lint again whenever a file that was read changes."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn

from gpudoctor.cli.output import say, write_out
from gpudoctor.cli.settings import Settings, settings_for
from gpudoctor.config import OWN_FILES, SHARED_FILE
from gpudoctor.errors import GpudoctorError
from gpudoctor.lint.request import Outcome

_EVERY = 0.5
_Stamps = Mapping[str, "tuple[int, int] | None"]


def watch(options: argparse.Namespace, once: Callable[[Settings], Outcome]) -> NoReturn:
    """Lint, and again after each change, until the user ends it."""
    # What is wrong from the beginning ends the command.
    settings = settings_for(options)
    seen: _Stamps = {}
    while True:
        _clear()
        try:
            # Settings may have changed, too.
            settings = settings_for(options)
            files = _watched(once(settings), settings)
        except GpudoctorError as error:
            say(f"gpudoctor: {error}")
            files = set(seen)
        # What was changed while it was read is changed since.
        seen = {**_stamps(files - set(seen)), **{path: stamp for path, stamp in seen.items() if path in files}}
        say(f"Watching {sum(stamp is not None for stamp in seen.values())} files and folders. Ctrl+C ends.")
        seen = _changed(seen)


def _changed(seen: _Stamps) -> _Stamps:
    """Wait until something is not as it was; how it is then."""
    while (now := _stamps(seen)) == seen:
        time.sleep(_EVERY)
    return now


def _watched(outcome: Outcome, settings: Settings) -> set[str]:
    """The files that were read, and the folders in which new ones would be."""
    files = {*outcome.read, *settings.request.paths, *(file for _, file in settings.config.said_in)}
    if settings.config.origin:
        files.add(settings.config.origin)
    real = {os.path.abspath(file) for file in files}
    folders = {os.path.dirname(file) for file in real}
    # Of settings that cannot be read nobody says where they stand.
    return real | folders | {os.path.join(folder, name) for folder in folders for name in (*OWN_FILES, SHARED_FILE)}


def _stamps(files: Iterable[str]) -> _Stamps:
    return {file: _stamp(file) for file in files}


def _stamp(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _clear() -> None:
    """Begin at the top of a terminal; a pipe keeps all reports."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        write_out("\x1b[2J\x1b[H")
