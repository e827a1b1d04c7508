"""One part in a process of its own: `python -m tests.on_gpu PART FOLDER DEVICE GPUS UNTIL`. It tells lines of JSON."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from gpudoctor.plain import plain
from tests.on_gpu.part import DONE, Here, Part


def main(name: str, folder: str, device: str, gpus: str, until: str) -> None:
    """Examine, and write each fact as soon as it is known."""
    part: Part = importlib.import_module(f"tests.on_gpu.{name}")
    here = Here(Path(folder), device, int(gpus), float(until))
    with open(Path(folder) / f"{name}.jsonl", "a", encoding="utf-8") as file:

        def tell(about: str, /, **facts: Any) -> None:
            print(json.dumps([about, plain(facts)], default=str), file=file, flush=True)

        done = []
        for step in part.STEPS:
            if here.left >= step.least:
                step.look(tell, here)
                done.append(step.name)
                tell(DONE, steps=done)


if __name__ == "__main__":
    main(*sys.argv[1:])
