"""The one list of all that knows libraries: models, and what subscribes to the hooks of the evaluation.

All of them are loaded whatever a program names, which costs next to nothing: loaded for the words of a text, what a
program means would hang on the programs that the same process has read before.
"""

from __future__ import annotations

from importlib import import_module

from gpudoctor.lint.hooks import HOOKS
from gpudoctor.lint.library_call import MODELS

__all__ = ["ANALYSES", "FILES", "HOOKS", "MODELS"]

# Files that register or subscribe something. None registers what another one does, so that their order says nothing.
FILES = (
    "argument_parsers", "autograd_functions", "builtin", "builtin_containers", "callbacks", "checkpoint_files",
    "class_kinds", "cli_libraries", "context_names", "devices", "directories", "downloads", "dynamic_import",
    "environment_variables", "forward_calls", "frameworks", "huggingface", "missing_attributes", "paths",
    "process_launchers", "random_state", "reflection", "stdlib", "stub_models", "tensor_operations", "tensors", "timm",
    "torch_core", "torch_cuda", "torch_data", "torch_distributed", "torch_geometric", "torch_nn", "torch_optim",
    "unread_code", "wrapping",
)  # fmt: skip
ANALYSES = (
    "activation_checkpoint", "after_wrap", "collective_taint", "data_parallel_replicas", "dropped_results",
    "freezing", "iterable_datasets", "state_dicts", "swallowed_errors",
)  # fmt: skip
for _name in FILES:
    import_module(f"gpudoctor.lint.library.{_name}")
for _name in ANALYSES:
    import_module(f"gpudoctor.lint.analyses.{_name}")
