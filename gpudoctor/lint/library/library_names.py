"""Library names: one spelling for each thing, and which libraries can do no harm to what is handed to them."""

from __future__ import annotations

import sys
from functools import lru_cache

from gpudoctor.manifest.compiled import aliases, operations, parts, prefixes, roots

_ALIASES = aliases()


@lru_cache(maxsize=1024)
def canonical(name: str) -> str:
    """The one spelling of a dotted library name."""
    found = _ALIASES.get(name)
    end = len(name)
    while found is None and (end := name.rfind(".", 0, end)) > 0:
        # Longest first: a module may offer what is in another one, but for a part.
        below = _ALIASES.get(name[: end + 1])
        found = below + name[end + 1 :] if below is not None else None
    # What a module offers it may have from a third one.
    return name if found is None else canonical(found)


def is_canonical(name: str) -> bool:
    """All that has this name is called so: two such names mean two things, and neither a class of the project."""
    return name.startswith(("torch.", "builtins."))


# Without them any logger would end all rules of absence.
_HARMLESS_ROOTS = sys.stdlib_module_names | roots("harmless") | {"builtins"}
_HARMLESS = parts("harmless")
RUN_COMMANDS = prefixes("runs_commands")
"""Their decorators fill the parameters of a function from the command line."""
MAKE_FIELDS = prefixes("makes_fields")
_SETTINGS = prefixes("settings")


def is_harmless(name: str) -> bool:
    """Code under this name changes nothing about the models and loaders that are handed to it."""
    return name.partition(".")[0] in _HARMLESS_ROOTS or name.startswith(_HARMLESS)


def is_between_processes(name: str) -> bool:
    """What is made under this name is shared by several processes, as a queue."""
    return name.startswith(("multiprocessing.", "torch.multiprocessing."))


_OF_TENSORS = "each_number combines reshapes splits picks reduces answers without_graph describes".split()
# `update` is left out: an EMA has one that averages weights. So are `step`, `to` and all else that models have too.
DATA_METHODS = frozenset(
    name for kind in (str, bytes, list, dict, set, int, float) for name in vars(kind) if name[0] != "_"
) - {"update", "clear", "join"} | operations(*_OF_TENSORS).union(
    """
    as_posix astype cpu cumsum dot drop dropna dtype exists fill fillna groupby index_select is_absolute is_dir is_file
    item iterdir iterrows itertuples log_softmax masked_fill matmul mkdir narrow nelement numpy ravel resolve shape
    softmax tobytes tolist topk total_seconds value_counts
    add_ addcdiv_ addcmul_ clamp_ copy_ div_ lerp_ mul_ neg_ pow_ sqrt_ sub_ type_as
    """.split()
)
"""Methods of text, numbers, containers, arrays and paths: asked of something unknown, they say what it is. Of those
that change a tensor, arithmetic, as in the `step` of an optimizer; `zero_` is left out, which may clear a gradient."""
ABOUT_FORM = frozenset({"size", "shape", "dim", "ndim", "numel", "nelement", "dtype", "stride", "element_size"})
"""What is asked of tensors and arrays only, and not about the numbers in them."""
PLAIN = frozenset({"builtins.object", "abc.ABC", "typing.Generic", "typing.Protocol", "typing_extensions.Protocol"})
"""Bases from which nothing but what every object has is inherited."""
IMPORTS = ("importlib.import_module", "builtins.__import__")
"""What imports a module by a name that is computed."""
MODULE = "torch.nn.Module"
OF_LAYERS = "torch.nn."
"""The base of all models. Its constructor calls that of no class after it."""
_SHOWING_ROOTS = roots("shows")
_SHOWING = parts("shows")
_COMPUTING_ROOTS = roots("computes")
_COMPUTING = parts("computes")


def shows(name: str) -> bool:
    """A library callable that shows or records the numbers that it is given."""
    return name.partition(".")[0] in _SHOWING_ROOTS or name.startswith(_SHOWING)


def computes(name: str) -> bool:
    """A library callable whose result comes from its arguments alone, not from those of other ranks."""
    return name.partition(".")[0] in _COMPUTING_ROOTS or name.startswith(_COMPUTING)


def gives_settings(name: str) -> bool:
    """A library callable that reads what the user configured: one answer for all ranks."""
    return name.startswith(_SETTINGS)
