"""Torch's launcher, in a process that ends with the one that started it.

`python -m gpudoctor.probe.agent ...` takes the arguments of `torchrun`.
"""

from __future__ import annotations

import sys

from gpudoctor.ranks.processes import die_with_parent


def main(arguments: list[str]) -> None:
    """Run torchrun with these arguments."""
    die_with_parent()
    from torch.distributed.run import main as torchrun

    torchrun(arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
