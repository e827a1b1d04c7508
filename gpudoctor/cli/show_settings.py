"""`gpudoctor lint --show-settings`: what holds for a lint, in the words of a settings file, and who said it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

from gpudoctor.cli.command import flattened
from gpudoctor.cli.output import say, write_lines
from gpudoctor.cli.settings import Settings
from gpudoctor.config import SETTINGS
from gpudoctor.report.text import wrap

_WIDTH = 100


def show_settings(settings: Settings, options: argparse.Namespace) -> int:
    """Print them; the exit code."""
    if not settings.quiet:
        say(*(f"gpudoctor: {note}" for note in settings.config.notes))
    write_lines(_lines(settings, options))
    return 0


def _lines(settings: Settings, options: argparse.Namespace) -> Iterator[str]:
    said_in, asked = dict(settings.config.said_in), _asked(options)
    files = list(dict.fromkeys([settings.config.origin, *said_in.values()]))
    yield f"# Settings file: {' extends '.join(filter(None, files)) or 'none'}"
    for key, value in _values(settings, options).items():
        yield f"{key} = {value}  # {_who(key, said_in, asked, options)}"
    codes = " ".join(card.code for card in settings.request.rules)
    yield from wrap(codes, _WIDTH, "# ", f"# {len(settings.request.rules)} rules: ")


def _who(key: str, said_in: dict[str, str], asked: set[str], options: argparse.Namespace) -> str:
    file = said_in.get(key, "")
    if options.select and key in ("extend-select", "ignore"):
        file = ""
    if key not in asked:
        return file or "default"
    return f"{file} and the command line" if file and key in _ADDED_TO else "the command line"


_ADDED_TO = ("extend-select", "ignore", "exclude")
"""Lists of a file to which the command line adds; of all else its word replaces that of the file."""


def _values(settings: Settings, options: argparse.Namespace) -> dict[str, str]:
    """What holds, by the keys of a settings file, in TOML."""
    config, request = settings.config, settings.request
    chosen = flattened(options.select) if options.select else config.select
    added, left_out = flattened(options.extend_select), flattened(options.ignore)
    values: dict[str, object] = {
        # The command line's choice replaces that of a file, and what it adds or takes away comes on top.
        "select": list(chosen or ()) if options.select or chosen is not None else None,
        "extend-select": [*(() if options.select else config.extend_select), *added],
        "ignore": [*(() if options.select else config.ignore), *left_out],
        "per-file-ignores": {pattern: list(rules) for pattern, rules in config.per_file_ignores},
        "exclude": [*config.exclude, *flattened(options.exclude)],
        "respect-gitignore": request.respect_gitignore,
        "launch": request.launch,
        "target-torch": config.target_torch or None,
        "output-format": settings.output_format,
        "fail-on": settings.fail_on,
        "unsafe-fixes": settings.unsafe_fixes,
    }
    return {key: _toml(values[key]) for key in SETTINGS if values.get(key) is not None}


def _toml(value: object) -> str:
    if isinstance(value, dict) and value:
        return f"{{ {', '.join(f'{json.dumps(key)} = {_toml(each)}' for key, each in value.items())} }}"
    # Lists, strings and truth are written alike in both languages.
    return json.dumps(value, ensure_ascii=False)


def _asked(options: argparse.Namespace) -> set[str]:
    """The keys about which the command line says something."""
    given = {
        key
        for key in ("select", "extend-select", "ignore", "exclude", "launch", "output-format", "fail-on")
        if getattr(options, key.replace("-", "_"))
    }
    if options.no_respect_gitignore:
        given.add("respect-gitignore")
    if options.unsafe_fixes or options.no_unsafe_fixes:
        given.add("unsafe-fixes")
    return given
