"""How much of a project is read before reading stops. Reaching a limit is always recorded, never silent."""

MAX_FILE_BYTES = 8 * 1024 * 1024
"""Larger files are data written as Python: parsing one takes tens of seconds and gigabytes."""

MAX_NOTEBOOK_BYTES = 64 * 1024 * 1024
"""A notebook holds its plots as well."""


def most_bytes(path: str) -> int:
    """How large a file may be."""
    return MAX_NOTEBOOK_BYTES if path.endswith(".ipynb") else MAX_FILE_BYTES


MAX_PROJECT_FILES = 500
"""Files read for one entry. The largest training program among those reviewed needs under 200."""

MAX_PROJECT_BYTES = 24 * 1024 * 1024
"""Text read for one entry."""

MAX_FOLDER_SCAN = 400
"""Names looked at in a folder to learn whether it holds Python files: data folders can hold a million images."""

MAX_FOLDERS_BELOW = 10
"""Sub-folders looked into for the same reason."""

MAX_SETUP_BYTES = 64 * 1024
"""Of a `setup.py`, to learn whether it installs a project."""
