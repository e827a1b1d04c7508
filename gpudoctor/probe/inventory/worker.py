"""The process that asks: one part of the inventory, written to standard output as it becomes known.

Each line is a JSON object: `{"asking": "GPU 3"}` before a question that may hang, `{"Gpu": {...}}` for an answer.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module

from gpudoctor.plain import plain
from gpudoctor.ranks.process_tree import die_with_parent

PARTS = {"nvml": "nvml", "torch": "torch_view", "system": "system", "sample": "sampler"}
"""The module of each part, whose `read` yields what it is about to ask, and answers."""
ASKING = "asking"


def main() -> None:
    """Read the part that the command line names, for the process whose PID it names."""
    # Whoever sent this process may be killed while it waits for a driver, or has been already.
    die_with_parent()
    if os.getppid() != int(sys.argv[2]):
        return
    part = import_module(f"gpudoctor.probe.inventory.{PARTS[sys.argv[1]]}")
    # Libraries print warnings; only ours may go where the answers go.
    answers, sys.stdout = sys.stdout, sys.stderr
    for piece in part.read():
        told = {ASKING: piece} if isinstance(piece, str) else {type(piece).__name__: plain(piece)}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
