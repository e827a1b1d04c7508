"""Library names: one spelling for each thing, and which libraries can do no harm to what is handed to them."""

from __future__ import annotations

import sys
from functools import lru_cache

ALIASES = {
    "torch.nn.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
    "torch.utils.data.DistributedSampler": "torch.utils.data.distributed.DistributedSampler",
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "torch.utils.data.dataset.random_split": "torch.utils.data.random_split",
    "torch.distributed.launcher": "torch.distributed.launcher",
    "torch.multiprocessing.spawn.spawn": "torch.multiprocessing.spawn",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": (
        "torch.distributed.fsdp.FullyShardedDataParallel"
    ),
    "torch.distributed._composable.fsdp.fully_shard": "torch.distributed.fsdp.fully_shard",
    # Deprecated since torch 2.4, and still what most programs import.
    "torch.cuda.amp.GradScaler": "torch.amp.GradScaler",
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.amp.GradScaler",
    "torch.cuda.amp.autocast": "torch.autocast",
    "torch.amp.autocast": "torch.autocast",
    "torch.utils.tensorboard.writer.SummaryWriter": "torch.utils.tensorboard.SummaryWriter",
    # torch's module is the standard one with shared tensors added.
    "multiprocessing.Process": "torch.multiprocessing.Process",
    "multiprocessing.set_start_method": "torch.multiprocessing.set_start_method",
    "multiprocessing.get_context": "torch.multiprocessing.get_context",
    "os.environ.get": "os.getenv",
}
PREFIXES = (
    ("torch.distributed.distributed_c10d.", "torch.distributed."),
    ("torch.nn.modules.", "torch.nn.modules."),
    ("torch.utils.data.dataset.", "torch.utils.data."),
    ("torch.utils.data.sampler.", "torch.utils.data."),
    # Lightning 2.0 renamed the import; the old name is still published.
    ("pytorch_lightning.", "lightning.pytorch."),
)


@lru_cache(maxsize=1024)
def canonical(name: str) -> str:
    """The one spelling of a dotted library name."""
    found = ALIASES.get(name)
    if found is not None:
        return found
    for prefix, better in PREFIXES:
        if name.startswith(prefix):
            return better + name[len(prefix) :]
    return name


# Without such a list any logger would end all rules of absence.
HARMLESS_ROOTS = frozenset(sys.stdlib_module_names) | frozenset(
    [
        "builtins",
        "numpy",
        "scipy",
        "pandas",
        "matplotlib",
        "seaborn",
        "plotly",
        "bokeh",
        "altair",
        "livelossplot",
        "fastprogress",
        # What notebooks have at hand.
        "IPython",
        "ipywidgets",
        "google",
        "kaggle_secrets",
        "PIL",
        "cv2",
        "skimage",
        "imageio",
        "tqdm",
        "rich",
        "colorama",
        "termcolor",
        "yaml",
        "omegaconf",
        "hydra",
        "fire",
        "click",
        "absl",
        "easydict",
        "yacs",
        "einops",
        "sklearn",
        "torchinfo",
        "torchsummary",
        "thop",
        "ptflops",
        # Synchronises over ranks by itself at `compute()`.
        "torchmetrics",
        "tensorboardX",
        "wandb",
        "mlflow",
        "comet_ml",
        "neptune",
        "loguru",
        "coloredlogs",
        "prettytable",
        "tabulate",
        "psutil",
        "pynvml",
        "GPUtil",
        "h5py",
        "lmdb",
        "requests",
        "tyro",
        "ml_collections",
        "dotenv",
        "six",
        "packaging",
        "toml",
        "tomli",
        "attr",
        "attrs",
        "pydantic",
        "regex",
        "nltk",
        "torch",
        "torchvision",
        "torchaudio",
        "torchtext",
        "tokenizers",
        "sentencepiece",
        "datasets",
        "huggingface_hub",
        "safetensors",
        "tiktoken",
        # Trackers of experiments.
        "aim",
        "clearml",
        "swanlab",
        "visdom",
        # Files of all kinds, and lists of them.
        "filelock",
        "gdown",
        "jsonlines",
        "msgpack",
        "natsort",
        "openpyxl",
        "orjson",
        "polars",
        "pyarrow",
        "ujson",
        "wget",
        "zarr",
        # Sound and text.
        "editdistance",
        "ftfy",
        "g2p_en",
        "inflect",
        "jieba",
        "jiwer",
        "librosa",
        "parselmouth",
        "pesq",
        "phonemizer",
        "pydub",
        "pypinyin",
        "pystoi",
        "pyworld",
        "resampy",
        "rouge_score",
        "sacrebleu",
        "soundfile",
        "unidecode",
        # Pictures of bodies, of the earth, and boxes in pictures.
        "SimpleITK",
        "albumentations",
        "imgaug",
        "medpy",
        "nibabel",
        "plyfile",
        "pycocotools",
        "pydicom",
        "rasterio",
        "shapely",
        "tifffile",
        "trimesh",
        # Molecules and networks.
        "Bio",
        "ase",
        "networkx",
        "rdkit",
    ]
)
HARMLESS = ("fvcore.nn.", "timm.data.", "timm.scheduler.", "timm.utils.get_state_dict", "timm.utils.model.")
"""Parts of libraries that are not harmless as a whole."""
SETTINGS = (
    "yaml.", "json.load", "omegaconf.", "hydra.", "toml", "configparser.", "tyro.", "fire.", "absl.", "ml_collections.",
    "ruamel", "easydict.", "yacs.", "tomllib.", "dotenv.", "click.", "typer.", "simple_parsing.", "jsonargparse.",
)  # fmt: skip


def is_harmless(name: str) -> bool:
    """Code under this name changes nothing about the models and loaders that are handed to it."""
    return name.partition(".")[0] in HARMLESS_ROOTS or name.startswith(HARMLESS)


# `update` is left out: an EMA has one that averages weights. So are `step`, `to` and all else that models have too.
DATA_METHODS = (
    frozenset(name for kind in (str, bytes, list, dict, set, int, float) for name in dir(kind) if name[0] != "_")
    - {"update", "clear", "join"}
) | frozenset(
    ["abs", "all", "any", "argmax", "argmin", "argsort", "as_posix", "astype", "chunk", "clamp", "clip",
     "contiguous", "cpu", "cumsum", "detach", "dim", "div", "dot", "drop", "dropna", "dtype", "eq", "exists",
     "exp", "expand", "fill", "fillna", "flatten", "float", "ge", "groupby", "gt", "half", "int",
     "is_absolute", "is_dir", "is_file", "item", "iterdir", "iterrows", "itertuples", "le", "log", "long",
     "lt", "max", "mean", "min", "mkdir", "mul", "nelement", "nonzero", "norm", "numel", "numpy", "permute",
     "pow", "ravel", "repeat", "reshape", "resolve", "round", "shape", "sigmoid", "size", "softmax", "sqrt",
     "squeeze", "std", "sum", "t", "tobytes", "tolist", "topk", "transpose", "unbind", "unique", "unsqueeze",
     "value_counts", "var", "view",
     # In-place arithmetic, as in the `step` of an optimizer; `zero_` is left out, which may clear a gradient.
     "add_", "addcdiv_", "addcmul_", "clamp_", "copy_", "div_", "lerp_", "mul_", "neg_", "pow_", "sqrt_", "sub_",
     "type_as"]
)  # fmt: skip
"""Methods of text, numbers, containers, arrays and paths: asked of something unknown, they say what it is."""
SHOWING_ROOTS = frozenset(
    ["logging", "loguru", "rich", "tqdm", "wandb", "mlflow", "neptune", "comet_ml", "aim", "swanlab", "clearml",
     "tensorboard", "tensorboardX", "visdom"]
)  # fmt: skip
COMPUTING_ROOTS = frozenset(
    ["numpy", "scipy", "sklearn", "pandas", "math", "statistics", "operator", "functools", "itertools", "torch",
     "einops"]
)  # fmt: skip


def shows(name: str) -> bool:
    """A library callable that shows or records the numbers that it is given."""
    return name.partition(".")[0] in SHOWING_ROOTS or name.startswith("torch.utils.tensorboard.")


def computes(name: str) -> bool:
    """A library callable whose result comes from its arguments alone, not from those of other ranks."""
    return name.partition(".")[0] in COMPUTING_ROOTS or name.startswith("torchmetrics.functional.")


def gives_settings(name: str) -> bool:
    """A library callable that reads what the user configured: one answer for all ranks."""
    return name.startswith(SETTINGS)
