"""Where the report of a service looks for files: below the root of the repository."""

from __future__ import annotations

import os


def from_root(path: str, root: str) -> str:
    """A path of the working directory, relative to `root`; unchanged where there is no root or it lies elsewhere."""
    # A job may work in a folder of the repository, and services know files by their way from the top.
    relative = os.path.relpath(path, root) if root else path
    shown = (path if relative.split(os.sep)[0] == ".." else relative).replace(os.sep, "/")
    return shown.removeprefix("./")
