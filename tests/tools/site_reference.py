"""The reference of the site: what the command line, the settings and the schemas say of themselves."""

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpudoctor.cli.command import COMMANDS, CommandParser, command_named


def command_line() -> str:
    """All commands with all options, as `--help` has them."""
    blocks = [
        "---\ntitle: Command line\n---\n\n# Command line",
        "`gpudoctor help COMMAND` prints the same. `python -m gpudoctor` is the same program.",
    ]
    for name, summary in COMMANDS.items():
        blocks += [f"## gpudoctor {name}", *_command(name, summary)]
    return "\n\n".join(blocks) + "\n"


def schema_page(schemas: dict[str, Path]) -> str:
    """The members of each report, by its schema."""
    blocks = []
    for target, file in schemas.items():
        schema = json.loads(file.read_text(encoding="utf-8"))
        blocks.append(f"## {_title(file)}")
        if "description" in schema:
            blocks.append(schema["description"])
        blocks.append(f"Schema: [`{file.name}`](../{target})")
        blocks.append("\n".join(_members(schema)))
    return "\n\n".join(blocks)


def _command(name: str, summary: str) -> Iterator[str]:
    parser = CommandParser(prog=f"gpudoctor {name}", add_help=False, allow_abbrev=False)
    command = command_named(name)
    command.declare(parser)
    yield "\n\n".join(re.sub(r"\s*\n\s*", " ", part) for part in (command.__doc__ or summary).strip().split("\n\n"))
    for group in parser._action_groups:
        actions = [each for each in group._group_actions if each.help != argparse.SUPPRESS]
        if not actions:
            continue
        if group.title not in ("positional arguments", "options", "optional arguments"):
            yield f"**{(group.title or '').capitalize()}**"
        yield "\n\n".join(_option(parser, each) for each in actions)


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    formatter = argparse.HelpFormatter(parser.prog)
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    value = f" {metavar}" if action.nargs != 0 and action.option_strings else ""
    names = ", ".join(f"`{each}{value}`" for each in action.option_strings) or f"`{metavar}`"
    told = formatter._expand_help(action) if action.help else ""
    return f"{names}\n:   {told}"


def _members(schema: dict[str, Any]) -> Iterator[str]:
    yield from ("| member | type | |", "|---|---|---|")
    for name, member in schema.get("properties", {}).items():
        told = member.get("description", "").replace("\n", " ").replace("|", "\\|")
        yield f"| `{name}` | {_type(member)} | {told} |"


def _type(member: dict[str, Any]) -> str:
    if "anyOf" in member:
        return " or ".join(dict.fromkeys(_type(each) for each in member["anyOf"]))
    if "$ref" in member:
        return str(member["$ref"]).rpartition("/")[2]
    if "enum" in member:
        return ", ".join(f"`{each}`" for each in member["enum"])
    if "items" in member:
        return f"list of {_type(member['items'])}"
    kind = member.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def _title(file: Path) -> str:
    return "Settings" if file.stem == "settings" else f"gpudoctor {file.stem}"
