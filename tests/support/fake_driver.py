"""A driver made for the tests: compiles the fake library, and reads machines through it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from gpudoctor.probe.inventory.facts import Inventory
from gpudoctor.probe.inventory.subprocess_query import Answers
from gpudoctor.probe.inventory.take import put_together

SOURCE = Path(__file__).with_name("fake_nvml.c")
# A process for each machine would take the tests half a minute.
_READ_ALL = """
import json, os, sys
from gpudoctor.probe.inventory import nvml
from gpudoctor.plain import plain
for name, text in json.load(sys.stdin).items():
    path = os.path.join(sys.argv[1], name)
    with open(path, "w") as file:
        file.write(text)
    os.environ["FAKE_NVML"] = path
    told = [(type(each).__name__, plain(each)) for each in nvml.read() if not isinstance(each, str)]
    print(json.dumps([name, told]))
"""


def compiler() -> str | None:
    """A C compiler, if there is one."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def compile_driver(folder: Path, *, old: bool = False) -> Path:
    """A folder with a libnvidia-ml.so.1 of today, or of the year 2019."""
    command = [str(compiler()), "-O0", "-shared", "-fPIC", *(["-DOLD_DRIVER"] if old else [])]
    subprocess.run([*command, "-o", str(folder / "libnvidia-ml.so.1"), str(SOURCE)], check=True, timeout=600)
    return folder


def read_all(machines: Mapping[str, str], library: Path, folder: Path) -> dict[str, Inventory]:
    """The inventories of machines that neither hang nor crash, as far as the driver tells."""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", _READ_ALL, str(folder)],
        input=json.dumps(machines),
        env={**os.environ, "LD_LIBRARY_PATH": str(library), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    answers = (json.loads(line) for line in run.stdout.splitlines())
    return {name: put_together({"nvml": Answers(tuple(map(tuple, told)))}, {}, 0.0) for name, told in answers}
