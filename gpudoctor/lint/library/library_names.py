"""Library names: one spelling for each thing, and which libraries can do no harm to what is handed to them."""

from __future__ import annotations

import sys
from functools import lru_cache

from gpudoctor.manifest.compiled import aliases, parts, prefixes, roots

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
    return name.startswith("torch.")


# Without them any logger would end all rules of absence.
_HARMLESS_ROOTS = sys.stdlib_module_names | roots("harmless") | {"builtins"}
_HARMLESS = parts("harmless")
RUN_COMMANDS = prefixes("runs_commands")
"""Their decorators fill the parameters of a function from the command line."""
_SETTINGS = prefixes("settings")


def is_harmless(name: str) -> bool:
    """Code under this name changes nothing about the models and loaders that are handed to it."""
    return name.partition(".")[0] in _HARMLESS_ROOTS or name.startswith(_HARMLESS)


def is_between_processes(name: str) -> bool:
    """What is made under this name is shared by several processes, as a queue."""
    return name.startswith(("multiprocessing.", "torch.multiprocessing."))


# `update` is left out: an EMA has one that averages weights. So are `step`, `to` and all else that models have too.
DATA_METHODS = (
    frozenset(name for kind in (str, bytes, list, dict, set, int, float) for name in vars(kind) if name[0] != "_")
    - {"update", "clear", "join"}
) | frozenset(
    ["abs", "all", "any", "argmax", "argmin", "argsort", "as_posix", "astype", "chunk", "clamp",
     "clip", "clone", "contiguous", "cos", "cpu", "cumsum", "detach", "dim", "div", "dot", "drop",
     "dropna", "dtype", "eq", "exists", "exp", "expand", "expand_as", "fill", "fillna", "flatten",
     "flip", "float", "ge", "groupby", "gt", "half", "index_select", "int", "is_absolute",
     "is_dir", "is_file", "item", "iterdir", "iterrows", "itertuples", "le", "log", "log_softmax",
     "long", "lt", "masked_fill", "masked_select", "matmul", "max", "mean", "min", "mkdir", "mul",
     "narrow", "ne", "nelement", "nonzero", "norm", "numel", "numpy", "permute", "pow", "ravel",
     "repeat", "reshape", "resolve", "roll", "round", "shape", "sigmoid", "sin", "size",
     "softmax", "sqrt", "squeeze", "std", "sum", "t", "tanh", "tobytes", "tolist", "topk",
     "total_seconds", "transpose", "tril", "triu", "unbind", "unique", "unsqueeze", "value_counts",
     "var", "view", "view_as",
     # In-place arithmetic, as in the `step` of an optimizer; `zero_` is left out, which may clear a gradient.
     "add_", "addcdiv_", "addcmul_", "clamp_", "copy_", "div_", "lerp_", "mul_", "neg_", "pow_", "sqrt_", "sub_",
     "type_as"]
)  # fmt: skip
"""Methods of text, numbers, containers, arrays and paths: asked of something unknown, they say what it is."""
ABOUT_FORM = frozenset({"size", "shape", "dim", "ndim", "numel", "nelement", "dtype", "stride", "element_size"})
"""What is asked of tensors and arrays only, and not about the numbers in them."""
PLAIN = frozenset({"builtins.object", "abc.ABC"})
"""Bases from which nothing but what every object has is inherited."""
MODULE = "torch.nn.Module"
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
