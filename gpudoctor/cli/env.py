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

_PACKAGES = ("torch", "torchvision", "accelerate", "lightning", "pytorch-lightning", "transformers", "deepspeed", "ray")
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_LAUNCH_BLOCKING",
    "GROUP_RANK",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "NODE_RANK",
    "OMP_NUM_THREADS",
    "RANK",
    "WORLD_SIZE",
)
_FAMILIES = ("NCCL_", "TORCH_", "TORCHELASTIC_", "GLOO_", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD")


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
    return {
        "gpudoctor": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": _versions(),
        "gpus": None,
        "environment": _environment(),
    }


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


def _environment() -> dict[str, str]:
    return {
        # This is pasted into public reports.
        name: "(hidden)" if any(word in name for word in _SECRET) else value
        for name, value in sorted(os.environ.items())
        if name in _VARIABLES or name.startswith(_FAMILIES)
    }


def _table(facts: dict[str, Any]) -> str:
    rows = [(name, str(facts[name])) for name in ("gpudoctor", "python", "executable", "platform")]
    rows += [(name, version) for name, version in facts["packages"].items() if version]
    if not facts["packages"]["torch"]:
        rows.append(("torch", "not installed here"))
    rows.append(("GPUs", "not examined: `env` asks neither torch nor the driver"))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    lines.append("environment" if facts["environment"] else "environment: none of the variables of a launcher is set")
    lines += [f"  {name}={value}" for name, value in facts["environment"].items()]
    return "\n".join(lines) + "\n"


def _document(facts: dict[str, Any]) -> str:
    import json

    return json.dumps({"version": 1, **facts}, indent=2) + "\n"
