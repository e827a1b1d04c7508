"""Which files of models a program needs: they are loaded when its text mentions the library."""

from __future__ import annotations

from importlib import import_module

ALWAYS = (
    "builtin", "containers", "reflection", "lookups", "standard", "tensors", "environment", "arguments", "commands",
)  # fmt: skip
BY_WORD = {
    "torch": (
        "torch_core",
        "randomness",
        "freezing",
        "torch_nn",
        "forwards",
        "wrapping",
        "torch_distributed",
        "torch_data",
        "torch_optim",
        "torch_cuda",
        "launching",
        "storage",
        "loggers",
        "frameworks",
    ),
    "autograd": ("autograd",),
    "transformers": ("torch_nn", "forwards", "huggingface"),
    "diffusers": ("torch_nn", "forwards", "huggingface"),
    "peft": ("torch_nn", "forwards", "huggingface"),
    "timm": ("timm",),
    **dict.fromkeys(("torch_geometric", "dgl"), ("torch_nn", "forwards", "graphs")),
    "mpi4py": ("mpi",),
    "submitit": ("launching",),
    "wandb": ("loggers",),
    **dict.fromkeys(("PIL", "cv2", "imread", "audio", "h5py", "read_image", "soundfile", "librosa"), ("files",)),
    **dict.fromkeys(("download", "urlretrieve", "lock"), ("downloads",)),
    **dict.fromkeys(("mkdir", "makedirs", "rmtree", "rmdir", "removedirs"), ("folders",)),
    **dict.fromkeys(
        ("accelerate", "lightning", "deepspeed", "detectron2", "mmengine", "mmcv", "composer", "colossalai", "fastai"),
        ("frameworks",),
    ),
}
_loaded: set[str] = set()


def load_models(text: str) -> None:
    """Load what a file with this text may call."""
    wanted = [*ALWAYS]
    for word, files in BY_WORD.items():
        # Not looked for where all is there already: this is asked of each file that a program reads.
        if not _loaded.issuperset(files) and word in text:
            wanted += files
    for name in wanted:
        if name not in _loaded:
            _loaded.add(name)
            import_module(f"gpudoctor.lint.models.{name}")
