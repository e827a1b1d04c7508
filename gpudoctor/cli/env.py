"""`gpudoctor env`: what a report about a training run should say of the machine."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING, Any

from gpudoctor import __version__
from gpudoctor.cli.command import Command, one_of
from gpudoctor.cli.output import write_out

if TYPE_CHECKING:
    import argparse

    from gpudoctor.probe.inventory.facts import Variable

_PACKAGES = ("torch", "torchvision", "accelerate", "lightning", "pytorch-lightning", "transformers", "deepspeed", "ray")


class Env(Command):
    """Show what a report about a training run should say of the machine."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--output-format", metavar="text|json", type=one_of("text", "json"), default="text", help="default: text"
        )

    def run(self, options: argparse.Namespace) -> int:
        facts = _facts()
        write_out(_document(facts) if options.output_format == "json" else _table(facts))
        return 0


def _facts() -> dict[str, Any]:
    from gpudoctor.probe.inventory.plain import to_plain
    from gpudoctor.probe.inventory.system import system

    machine = system()
    variables = _variables(len(machine.cpus_usable.or_else(())) or None)
    return {
        "gpudoctor": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": _versions(),
        # None where nothing is known without asking the driver, which may hang.
        "gpus": to_plain(machine.nvidia_models.value),
        "driver": machine.nvidia_module.value,
        "environment": {each.name: each.value for each in variables},
        "variables": [to_plain(each) for each in variables],
        # The name of the host is nobody's business: this is pasted into public reports.
        "system": {name: value for name, value in to_plain(machine).items() if name != "host"},
    }


def _variables(cpus: int | None) -> tuple[Variable, ...]:
    import socket

    from gpudoctor.probe.inventory.environment import variables
    from gpudoctor.probe.inventory.meanings import Surroundings

    interfaces = tuple(name for _, name in socket.if_nameindex())
    return variables(Surroundings(os.environ, interfaces=interfaces, cpus=cpus))


def _versions() -> dict[str, str | None]:
    """Versions by their metadata: importing torch takes seconds, and may fail on a broken machine."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # noqa: PERF203
            found[package] = None
    return found


def _table(facts: dict[str, Any]) -> str:
    rows = [(name, str(facts[name])) for name in ("gpudoctor", "python", "executable", "platform")]
    rows += [(name, version) for name, version in facts["packages"].items() if version]
    if not facts["packages"]["torch"]:
        rows.append(("torch", "not installed here"))
    rows += [("machine", _machine(facts["system"])), ("GPUs", _gpus(facts))]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    variables = facts["variables"]
    lines.append("environment" if variables else "environment: none of the variables of a launcher is set")
    for each in variables:
        lines += [f"  {each['name']}={each['value']}", f"      {each['effect']}"]
        if each["doubt"]:
            lines.append(f"      ! {each['doubt']}" + (f": {each['remedy']}" if each["remedy"] else ""))
    return "\n".join(lines) + "\n"


def _machine(system: dict[str, Any]) -> str:
    parts = [f"{len(system['cpus_usable'])} CPUs" if isinstance(system["cpus_usable"], list) else ""]
    for name, label in (("memory", "memory"), ("shm", "/dev/shm")):
        if "total" in system[name]:
            parts.append(f"{label} {system[name]['total'] / 2**30:.1f} GiB")
    if isinstance(system["container"], str):
        parts.append(f"in {system['container']}")
    return ", ".join(part for part in parts if part) or "not known on this system"


def _gpus(facts: dict[str, Any]) -> str:
    if facts["gpus"] is None:
        return "not examined: `env` asks neither torch nor the driver"
    counts = {model: facts["gpus"].count(model) for model in facts["gpus"]}
    return ", ".join(f"{count} x {model}" for model, count in counts.items()) + f", driver {facts['driver']}"


def _document(facts: dict[str, Any]) -> str:
    import json

    return json.dumps({"version": 1, **facts}, indent=2) + "\n"
