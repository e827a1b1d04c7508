"""In the user's process: wait until torch is imported, and put the instruments in place then, before anyone uses it.

Waiting costs nothing to a process that never imports torch.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

# Loaded now, while the clocks are those of Python.
from gpudoctor.run import clock  # noqa: F401
from gpudoctor.run.import_hooks import when_imported
from gpudoctor.run.protocol import VIRTUAL_NODE

if TYPE_CHECKING:
    from gpudoctor.virtual.backward_pass import InMode

FOLDER = "GPUDOCTOR_RUN_FOLDER"
"""The environment variable that names the folder of the recording."""


LAUNCHER = "GPUDOCTOR_RUN_LAUNCHER"
"""The variable that names the process of the launcher that we have started, for its ranks; `NEXT` for itself."""
NEXT = "next"
VIRTUAL_GPUS = "GPUDOCTOR_VIRTUAL_GPUS"
"""The variable that says how many virtual GPUs this machine is to have; without it, GPUs are what they are."""
SKIPPED_KERNELS = "GPUDOCTOR_SKIPPED_KERNELS"
"""The variable that names the modules which stand-ins replace, with commas between them."""
_path: list[str] = []
"""Where modules were looked for before the user's script was."""


def end_with_launcher() -> None:
    """Where this is a rank of the launcher that we have started: end when it ends. It ends with us, even if killed."""
    launcher = os.environ.get(LAUNCHER)
    if launcher == NEXT:
        os.environ[LAUNCHER] = str(os.getpid())
    elif launcher:
        # What the ranks start in turn is the user's.
        del os.environ[LAUNCHER]
        if launcher == str(os.getppid()):
            from gpudoctor.ranks.process_tree import die_with_parent

            die_with_parent()
            # It may have been killed before that.
            if launcher != str(os.getppid()):
                os._exit(1)


def wait_for_torch() -> None:
    """Have the instruments installed as soon as `import torch` has come to its end."""
    global _path
    _path = list(sys.path)
    if SKIPPED_KERNELS in os.environ:
        from gpudoctor.virtual.kernel_stand_ins import stand_in_for

        stand_in_for(os.environ[SKIPPED_KERNELS].split(","))
    when_imported("torch", _install)


def _make_shards_virtual(in_mode: InMode) -> None:
    from gpudoctor.virtual import sharded_attention, sharded_draws, sharded_operators

    sharded_draws.install(in_mode)
    sharded_operators.install(in_mode)
    sharded_attention.install()


def _install() -> None:
    # Without the folders of the user's files: what we load must be Python's own, though the user has a `resource.py`.
    now = list(sys.path)
    sys.path[:] = [entry for entry in now if entry in _path]
    try:
        # First, so that the instruments watch what the program will use.
        if VIRTUAL_GPUS in os.environ:
            from gpudoctor.virtual.install import make_gpus_virtual

            in_mode = make_gpus_virtual(int(os.environ[VIRTUAL_GPUS]), os.environ.get(VIRTUAL_NODE, ""))
            when_imported("torch.distributed.tensor", lambda: _make_shards_virtual(in_mode))
        from gpudoctor.run.instruments import install
    finally:
        sys.path[:] = now
    install(os.environ[FOLDER])
