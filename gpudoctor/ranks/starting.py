"""Python processes of our own, which nothing that lies beside the user becomes a part of.

`python -m` looks for modules in the working directory first, for `random.py` as well as for ours. `-P` and
PYTHONSAFEPATH change that since Python 3.11; what is written here holds for all versions.
"""

from __future__ import annotations

import sys

# Until its first entry is gone from the path, nothing may be imported that is not built in.
_CODE = (
    "import sys; sys.path[:1] == [''] and sys.path.pop(0); import runpy; sys.argv.pop(0); "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as `python -m` does, without the working directory on the path of modules."""
    return [sys.executable, "-c", _CODE, module, *arguments]
