"""In the user's process: wait until torch is imported, and put the instruments in place then, before anyone uses it.

Waiting costs nothing to a process that never imports torch.
"""

from __future__ import annotations

import os

from gpudoctor.run.imports import when_imported

FOLDER = "GPUDOCTOR_RUN_FOLDER"
"""The environment variable that names the folder of the recording."""


def wait_for_torch() -> None:
    """Have the instruments installed as soon as `import torch` has come to its end."""
    when_imported("torch", _install)


def _install() -> None:
    from gpudoctor.run.instruments import install

    install(os.environ[FOLDER])
