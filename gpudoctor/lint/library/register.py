"""The one list of all that knows libraries: models, and what subscribes to the hooks of the evaluation.

Most of them are loaded whatever a program names. The models of a library that few programs use are loaded when one of
its names is first asked for. Nothing may be answered otherwise because they are there already: what a program means
would hang on the programs that the same process has read before. So all that such a file answers for belongs to these
names, is of a kind of values that it alone makes, or is refused where a value is not of its library.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module

from gpudoctor.lint.interface.hooks import HOOKS
from gpudoctor.lint.interface.library_call import MODELS
from gpudoctor.manifest.compiled import belonging, functions, taking_charge

__all__ = ["ANALYSES", "FILES", "HOOKS", "MODELS", "OF_NAMES"]

# Files that register or subscribe something. None registers what another one does, so that their order says nothing.
FILES = (
    "argument_parsers", "builtin", "builtin_containers", "checkpoint_files", "class_kinds", "context_names", "devices",
    "directories", "environment_variables", "forward_calls", "gpu_switches", "hidden_ranks",
    "missing_attributes", "paths", "random_state", "replaced_defaults", "stdlib", "stub_bodies", "stub_models",
    "tensor_operations", "tensors", "torch_core", "torch_cuda", "torch_data", "torch_distributed", "torch_nn",
    "torch_optim", "unread_code", "wrapping",
)  # fmt: skip
OF_NAMES: dict[str, tuple[str, ...]] = {
    "autograd_functions": ("torch.autograd.Function", "torch.autograd.function.Function"),
    "callbacks": ("memory_profiler", "optuna", *{each.partition(".")[0] for each in functions("calls")}),
    "cli_libraries": (
        "absl", "argh", "click", "clize", "cyclopts", "defopt", "fastcore", "fire", "gflags",
        "gpudoctor.manifest.effects.class_in_settings", "gpudoctor.manifest.effects.of_options",
        "gpudoctor.manifest.effects.said_in_settings", "jsonargparse", "plac", "rich_click",
        "simple_parsing", "tensorflow.app.flags", "typer", "tyro",
    ),
    "configurable_defaults": ("argbind", "gin"),
    "device_meshes": (
        "torch.distributed.DeviceMesh", "torch.distributed.device_mesh", "torch.distributed.init_device_mesh",
        "torch.distributed._tensor", "torch.distributed.tensor",
    ),
    "downloads": (
        "clip.load", "clip.clip.load", "fasteners", "filelock", "io.open", "os.system", "portalocker",
        "pytorch_pretrained_bert", "pytorch_transformers", "shlex", "shutil.copyfileobj", "subprocess",
        "torch.hub.load", *functions("downloads"),
    ),
    "dynamic_import": (
        "builtins.__import__", "builtins.eval", "diffusers.utils", "hydra.utils.get_class", "hydra.utils.get_method",
        "hydra.utils.get_object", "importlib", "monai.utils", "runpy", "transformers.file_utils",
        "transformers.utils",
    ),
    "frameworks": ("fairscale", *taking_charge(), *(each.removesuffix(".") for each in belonging())),
    "fully_sharded": (
        "torch.distributed._composable", "torch.distributed.fsdp", "torch.distributed.tensor.experimental",
        "torch.distributed.tensor.parallel",
    ),
    "hydra": (
        "hydra.compose", "hydra.experimental", "hydra.initialize", "hydra.initialize_config_dir",
        "hydra.initialize_config_module", "hydra.main", "hydra.utils.call", "hydra.utils.instantiate",
    ),
    "huggingface": ("diffusers", "peft", "pytorch_pretrained_bert", "pytorch_transformers", "transformers", "trl"),
    "huggingface_datasets": ("datasets",),
    "lightning": ("lightning", "lightning_utilities", "pytorch_lightning"),
    "log_files": ("logging", "loguru"),
    "pickling": ("cloudpickle", "dill", "pickle"),
    "process_launchers": (
        "accelerate.launchers", "detectron2.engine", "horovod", "ray", "submitit", "torch.distributed.launcher",
        "torch.multiprocessing",
    ),
    "ray_actors": ("ray",),
    "reflection": (
        "builtins.callable", "builtins.getattr", "builtins.hasattr", "builtins.isinstance", "builtins.issubclass",
        "builtins.locals", "builtins.object", "builtins.property", "builtins.setattr", "builtins.type", "builtins.vars",
        "dataclasses.is_dataclass", "inspect.getfullargspec", "inspect.isclass", "inspect.isfunction",
        "torch.is_tensor",
    ),
    "stub_words": ("gpudoctor.manifest.effects",),
    "setting_classes": (
        "cattr", "cattrs", "dacite", "draccus", "msgspec", "omegaconf", "pyrallis", "simple_parsing", "tap",
    ),
    "timm": ("timm",),
    "torch_geometric": ("dgl", "torch_geometric"),
    "torchmetrics": ("torchmetrics",),
    "written_settings": (
        "addict", "commentjson", "easydict", "hjson", "json.load", "json.loads", "mmcv.Config", "mmcv.utils.Config",
        "mmengine.Config", "mmengine.config", "munch", "omegaconf", "toml", "tomli", "tomllib", "yacs", "yaml",
    ),
}  # fmt: skip
"""Files that know nothing but what has a name that begins so."""
ANALYSES = (
    "activation_checkpoint", "after_wrap", "cut_ends", "data_parallel_replicas", "dropped_results",
    "freezing", "iterable_datasets", "picked_samples", "state_dicts", "swallowed_errors",
)  # fmt: skip


def _load(*files: str) -> None:
    for file in files:
        import_module(f"gpudoctor.lint.library.{file}")


for _name in FILES:
    _load(_name)
for _name in ANALYSES:
    import_module(f"gpudoctor.lint.analyses.{_name}")
_of_name: dict[str, list[str]] = {}
for _name, _beginnings in OF_NAMES.items():
    for _beginning in _beginnings:
        _of_name.setdefault(_beginning, []).append(_name)
MODELS.later.update((beginning, partial(_load, *files)) for beginning, files in _of_name.items())
