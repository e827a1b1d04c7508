"""One part in a process of its own, which tells lines of JSON: `python -m tests.on_gpu PART FOLDER DEVICE GPUS`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from gpudoctor.plain import plain
from tests.on_gpu.part import Here


def main(name: str, folder: str, device: str, gpus: str) -> None:
    """Examine, and write each fact as soon as it is known."""
    with open(Path(folder) / f"{name}.jsonl", "a", encoding="utf-8") as file:

        def tell(about: str, /, **facts: Any) -> None:
            print(json.dumps([about, plain(facts)], default=str), file=file, flush=True)

        importlib.import_module(f"tests.on_gpu.{name}").examine(tell, Here(Path(folder), device, int(gpus)))


if __name__ == "__main__":
    main(*sys.argv[1:])
