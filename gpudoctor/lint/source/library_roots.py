"""Top-level names that mean an installed library, whatever the folders of a project are called.

Projects name folders after what they build on (`implementations/torch/`, `docker/ray/`), and a checkout of a library
has its examples beside it. Python puts an installed package before a folder without `__init__.py`, and reading such a
folder, or the insides of PyTorch, in place of the library would turn every wrapper and sampler of the program into an
unknown object. So `LIBRARIES` always mean the library, unless the importing file is a part of that very package. Even
then PyTorch's own checkout means what is known of PyTorch, which says more than its source, and is told by its insides.
"""

from __future__ import annotations

import sys

from gpudoctor.manifest.compiled import known_better, roots

LIBRARIES = roots("wins")
"""Their meaning is modelled, or they have no part in how a program trains."""

KNOWN_BETTER = known_better()
"""Libraries whose models say more than their source, and packages inside of them by which their checkout is told from
a project's own package of that name."""

SHADOWED_BY_PACKAGES = roots("shadowed")
"""Libraries whose names projects use as well, or whose own checkout trains: the project's where it has such a module
or a package with `__init__.py`, as in Python."""

_KNOWN = roots("known")


def is_strange(name: str) -> bool:
    """Nothing is known of a library of this name: it may be a module of the program that is not at hand."""
    return bool(name) and name not in _KNOWN and not is_standard(name) and not is_always_loaded(name)


# In memory before the first line of a program runs, so no file can stand in for them.
_ALWAYS_LOADED = frozenset(sys.builtin_module_names) | {"abc", "codecs", "encodings", "io", "os", "site", "stat"}


def is_standard(name: str) -> bool:
    """A module of the standard library. A file of this name beside the entry script would win over it."""
    return name in sys.stdlib_module_names


def is_always_loaded(name: str) -> bool:
    """A module that nothing can stand in for."""
    return name in _ALWAYS_LOADED
