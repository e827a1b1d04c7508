"""The process that asks: one part of the inventory, written to standard output as it becomes known.

Each line is a JSON object: `{"asking": "GPU 3"}` before a question that may hang, `{"Gpu": {...}}` for an answer.
"""

from __future__ import annotations

import json
import sys

from gpudoctor.probe.inventory import nvml, sampler, system, torch_view
from gpudoctor.probe.inventory.plain import to_plain

PARTS = {"nvml": nvml.read, "torch": torch_view.read, "system": system.read, "sample": sampler.read}
ASKING = "asking"


def main() -> None:
    """Read the part that the command line names."""
    # Libraries print warnings; only ours may go where the answers go.
    answers, sys.stdout = sys.stdout, sys.stderr
    for piece in PARTS[sys.argv[1]]():
        told = {ASKING: piece} if isinstance(piece, str) else {type(piece).__name__: to_plain(piece)}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
