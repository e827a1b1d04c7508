"""`python -m gpudoctor` is the program `gpudoctor`."""

import os
import sys
from importlib import import_module


def _forget_working_directory() -> None:
    """Python would look there for modules first, and it is the project that is read: its `json.py` must not run."""
    try:
        here = os.getcwd()
    except OSError:
        return
    if sys.path[:1] in ([""], [here]):
        del sys.path[0]


if __name__ == "__main__":
    _forget_working_directory()
    sys.exit(import_module("gpudoctor.cli").program())
