"""Finds the modules of gpudoctor itself where they stand: next to one another, as files and folders.

Python asks several finders for each module, the last of which tries six endings, and then works out where its bytecode
is and goes through what stands before it in thirty calls: some 0.08 million instructions for each of ours, of which one
lint imports three hundred. Only the command line takes this way; whoever imports gpudoctor finds it as everything else.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from os.path import isfile
from types import CodeType, ModuleType

_OURS = ("gpudoctor.", "gpudoctor_rules.")
_TAG = None if sys.pycache_prefix or sys.flags.optimize else sys.implementation.cache_tag
"""Where Python keeps bytecode as it does mostly, what its files are called by."""
_BY_TIME = MAGIC_NUMBER + bytes(4)
"""What bytecode begins with that is as good as the time of change and the size of the source say."""


class _OwnModule(ModuleType):
    """A module that says quickly that it has no attribute: each `from` import asks it for the `__path__` of a package.

    Python's own then look for a `__getattr__`, and write an error that nobody reads: that takes 8,000 instructions, and
    one lint imports from modules four thousand times.
    """

    __getattribute__ = object.__getattribute__


class _OwnLoader(SourceFileLoader):
    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        # A package has its `__path__`, and may have a `__getattr__` that loads what is asked for.
        return _OwnModule(spec.name) if spec.submodule_search_locations is None else None

    def get_code(self, fullname: str) -> CodeType | None:
        if _TAG is not None:
            folder, _, file = self.path.rpartition("/")
            try:
                stat = os.stat(self.path)
                # Two numbers of four bytes each, as Python writes them.
                stamp = (int(stat.st_mtime) & 0xFFFFFFFF | (stat.st_size & 0xFFFFFFFF) << 32).to_bytes(8, "little")
                with open(f"{folder}/__pycache__/{file[:-3]}.{_TAG}.pyc", "rb", 0) as kept:
                    data = kept.read()
                if data.startswith(_BY_TIME + stamp):
                    code: CodeType = marshal.loads(memoryview(data)[16:])
                    # Where the folder was called otherwise when they were compiled, Python puts the names right.
                    if code.co_filename == self.path:
                        return code
            except (OSError, ValueError, EOFError, TypeError):
                pass
        return super().get_code(fullname)


class OwnModules:
    """A finder for `sys.meta_path`. What does not stand beside its siblings it leaves to the others."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        """Where the module is, if it is one of ours."""
        if not path or not name.startswith(_OURS):
            return None
        folder, own = path[0], name[name.rindex(".") + 1 :]
        file, inside = f"{folder}/{own}.py", None
        if not isfile(file):
            folder, own = f"{folder}/{own}", "__init__"
            file, inside = f"{folder}/__init__.py", [folder]
            if not isfile(file):
                return None
        spec = ModuleSpec(name, _OwnLoader(name, file), origin=file)
        spec.has_location, spec.submodule_search_locations = True, inside
        if _TAG is not None:
            # Else Python works it out from the path, a second time.
            spec.cached = f"{folder}/__pycache__/{own}.{_TAG}.pyc"
        return spec


# Asked before all others from here on: to be imported is all that this module is for.
sys.meta_path.insert(0, OwnModules)
