"""The register with all models in it.

All of them are loaded whatever a program names, which costs next to nothing: loaded for the words of a text, what a
program means would hang on the programs that the same process has read before.
"""

from __future__ import annotations

from importlib import import_module

from gpudoctor.lint.models.api import MODELS

__all__ = ["FILES", "MODELS"]

# Files that register something. None registers what another one does, so that their order says nothing.
FILES = (
    "arguments", "autograd", "builtin", "callbacks", "commands", "containers", "downloads", "environment",
    "files", "folders", "forwards", "frameworks", "freezing", "graphs", "huggingface", "launching", "loggers",
    "lookups", "mpi", "randomness", "recomputing", "reflection", "standard", "storage", "tensors", "timm",
    "torch_core", "torch_cuda", "torch_data", "torch_distributed", "torch_nn", "torch_optim", "wrapped",
    "wrapping",
)  # fmt: skip
for _name in FILES:
    import_module(f"gpudoctor.lint.models.{_name}")
