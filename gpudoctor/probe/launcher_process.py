"""Torch's launcher, in a process that ends with the one that started it.

`python -m gpudoctor.probe.launcher_process PARENT` loads torch at once, which takes seconds, while its parent still
looks at the machine; then it waits for a line of JSON with its order (`launch.py`). Without one it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gpudoctor.ranks.process_tree import die_with_parent
from gpudoctor.ranks.starting import module_command


def main(parent: int) -> None:
    """Load torch, wait for the order, and be torchrun."""
    die_with_parent()
    # It may have been killed before that.
    if os.getppid() != parent:
        return
    from torch.distributed import run

    if not Path("/dev/nvidiactl").exists():
        _load_the_rest()
    line = sys.stdin.readline()
    if not line:
        return
    order = json.loads(line)
    os.environ.update(order["environment"])
    if order["fork"]:
        _forked(order["arguments"], order["worker"], order["folder"])
    else:
        python, *rest = module_command(order["worker"], order["folder"])
        run.main([*order["arguments"], "--no-python", python, "-u", *rest])


def _load_the_rest() -> None:
    """What each rank would load by itself: its parts, and what torch loads for the first optimizer."""
    import torch.nn.parallel
    import torch.utils.data

    with contextlib.suppress(ImportError):
        import torch._dynamo  # noqa: F401


def _forked(arguments: Sequence[str], worker: str, folder: str) -> None:
    """As torchrun does, with ranks that need not load torch again. On CPUs only: CUDA does not outlive a fork."""
    from torch.distributed import run
    from torch.distributed.launcher.api import elastic_launch

    options = run.parse_args([*arguments, "--start-method=fork", "-m", worker, folder])
    config, _, _ = run.config_from_args(options)
    elastic_launch(config, _rank)(worker, folder)


def _rank(worker: str, folder: str) -> None:
    """Be the process that `python -m worker folder` would be."""
    # The launcher's own handlers have come along.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, signal.SIG_DFL)
    sys.argv = [worker, folder]
    runpy.run_module(worker, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
