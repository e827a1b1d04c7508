"""The register with all models in it.

All of them are loaded whatever a program names, which costs next to nothing: loaded for the words of a text, what a
program means would hang on the programs that the same process has read before.
"""

from __future__ import annotations

from importlib import import_module

from gpudoctor.lint.library_call import MODELS

__all__ = ["ANALYSES", "FILES", "MODELS"]

# Files that register something. None registers what another one does, so that their order says nothing.
FILES = (
    "argument_parsers", "autograd_functions", "builtin", "builtin_containers", "callbacks", "checkpoint_files",
    "cli_libraries", "directories", "downloads", "dynamic_import", "environment_variables",
    "forward_calls", "frameworks", "huggingface", "process_launchers", "random_state",
    "reflection", "stdlib", "stub_models", "tensors", "timm", "torch_core", "torch_cuda", "torch_data",
    "torch_distributed", "torch_geometric", "torch_nn", "torch_optim", "wrapping",
)  # fmt: skip
ANALYSES = ("activation_checkpoint", "after_wrap", "freezing")
for _name in FILES:
    import_module(f"gpudoctor.lint.library.{_name}")
for _name in ANALYSES:
    import_module(f"gpudoctor.lint.analyses.{_name}")
