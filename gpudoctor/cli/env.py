"""`gpudoctor env`: what a report about a training run should say of the machine."""

from __future__ import annotations

import os
import platform
import sys
from typing import TYPE_CHECKING, Any

from gpudoctor import __version__
from gpudoctor.cli.command import Command, add_choice
from gpudoctor.cli.output import write_lines, write_out
from gpudoctor.manifest.libraries import LIBRARIES

if TYPE_CHECKING:
    import argparse

    from gpudoctor.probe.inventory.facts import Inventory, System, Variable

_PACKAGES = tuple([each.distribution for each in LIBRARIES if each.distribution])


class Env(Command):
    """Show what a bug report should say about this machine."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        add_choice(parser, "--output-format", "text", "json")
        parser.add_argument(
            "--gpus",
            action="store_true",
            help="also ask the driver and torch, which takes seconds: GPUs, links, weak points",
        )

    def run(self, options: argparse.Namespace) -> int:
        inventory = _inventory() if options.gpus else None
        facts = _facts(inventory)
        if options.output_format == "json":
            write_out(_document(facts, inventory))
        else:
            write_lines(_table(facts, inventory))
        return 0


def _inventory() -> Inventory:
    """The machine without the name of the host, which is nobody's business: this is pasted into public reports."""
    from gpudoctor.probe.inventory.field import absent
    from gpudoctor.probe.inventory.take import take_inventory
    from gpudoctor.record import replace

    found = take_inventory()
    return replace(found, system=replace(found.system, host=absent("it was left out")))


def _facts(inventory: Inventory | None) -> dict[str, Any]:
    from gpudoctor.plain import plain
    from gpudoctor.probe.inventory.system import system

    machine = system() if inventory is None else inventory.system
    variables = _variables(machine) if inventory is None else inventory.environment
    return {
        "gpudoctor": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": _versions(),
        **_gpus_of(machine, inventory),
        "environment": {each.name: each.value for each in variables},
        "variables": [plain(each) for each in variables],
        "system": {name: value for name, value in plain(machine).items() if name != "host"},
    }


def _gpus_of(machine: System, inventory: Inventory | None) -> dict[str, Any]:
    """The models of the GPUs: none is an empty list; None is not known, and `gpus_because` says why."""
    from gpudoctor.probe.inventory.field import Absence

    if inventory is None:
        # What the kernel tells by itself: the driver may hang when it is asked.
        models, driver = machine.nvidia_models, machine.nvidia_module.value
        because = "" if models.known else "not asked: `gpudoctor env --gpus` asks the driver and torch"
        return {"gpus": None if because else list(models.get()), "driver": driver, "gpus_because": because}
    known = inventory.driver.count
    # Who has no driver has no GPU that a program could use, whatever is in the slots.
    none = known.absence is Absence.NO_DRIVER
    gpus = [gpu.name.or_else("GPU") for gpu in inventory.gpus] if known.known or none else None
    return {"gpus": gpus, "driver": inventory.driver.version.value, "gpus_because": known.why_not}


def _variables(machine: System) -> tuple[Variable, ...]:
    import socket

    from gpudoctor.probe.inventory.environment import variables
    from gpudoctor.probe.inventory.meanings import Surroundings

    interfaces = tuple(name for _, name in socket.if_nameindex())
    cpus = len(machine.cpus_usable.or_else(())) or None
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


def _table(facts: dict[str, Any], inventory: Inventory | None) -> list[str]:
    rows = [(name, str(facts[name])) for name in ("gpudoctor", "python", "executable", "platform")]
    rows += [(name, version) for name, version in facts["packages"].items() if version]
    if not facts["packages"]["torch"]:
        rows.append(("torch", "not installed here"))
    if inventory is None:
        rows += [("machine", _machine(facts["system"])), ("GPUs", _gpus(facts))]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    if inventory is not None:
        from gpudoctor.probe.inventory.overview import summary

        lines += ["", *summary(inventory), ""]
    variables = facts["variables"]
    lines.append("environment" if variables else "environment: none of the variables of a launcher is set")
    for each in variables:
        lines += [f"  {each['name']}={each['value']}", f"      {each['effect']}"]
        if each["doubt"]:
            lines.append(f"      ! {each['doubt']}" + (f": {each['remedy']}" if each["remedy"] else ""))
    return lines


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
        return str(facts["gpus_because"])
    if not facts["gpus"]:
        return "none"
    counts = {model: facts["gpus"].count(model) for model in facts["gpus"]}
    return ", ".join(f"{count} x {model}" for model, count in counts.items()) + f", driver {facts['driver']}"


def _document(facts: dict[str, Any], inventory: Inventory | None) -> str:
    import json

    document = {"version": 1, **facts}
    if inventory is not None:
        from gpudoctor.plain import plain
        from gpudoctor.probe.inventory.findings.judge import weak_points

        document |= {"inventory": plain(inventory), "weak_points": plain(weak_points(inventory))}
    return json.dumps(document, indent=2) + "\n"
