"""The libraries that are known, and what of it matters to whom.

All lists of library names are derived from this table; `compiled.py` keeps them, so that no start reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpudoctor.record import dataclass

NameParts = tuple[str, ...]
"""Parts of a library, as what stands behind `library.` in the dotted names of them."""
ALL: NameParts = ("",)


@dataclass(frozen=True)
class LibraryEntry:
    """What is known of a library, or of several of which the same is known."""

    roots: str
    """The names that it is imported by."""
    wins: bool = False
    """Its name means the installed library, whatever the folders of a project are called."""
    shadowed: bool = False
    """Its name means the project's own module or package where it has one, which is often so."""
    known_better: NameParts = ()
    """Its models say more than its source. The packages inside of it by which its checkout is told from a project's own
    package of that name."""
    harmless: NameParts = ()
    """Changes nothing about the models and loaders that are handed to it."""
    shows: NameParts = ()
    """Shows or records the numbers that it is given."""
    computes: NameParts = ()
    """Its results come from the arguments alone, not from those of other ranks."""
    runs_commands: NameParts = ()
    """Fills the parameters of the functions that it decorates from the command line."""
    starts: NameParts = ()
    """Decorators that call their function at once where the file is the program: no main guard is needed."""
    calls_given: NameParts = ()
    """Functions that call the function or class of the program that they are given, as the command line says."""
    makes_fields: NameParts = ()
    """Bases and decorators of classes whose constructors take what their annotated names are."""
    settings: NameParts = ()
    """Reads what the user has configured: one answer for all ranks."""
    draws: NameParts = ()
    """Draws random numbers."""
    shares: NameParts = ()
    """Knows the rank or deals out work, or runs beside the program."""
    modules: NameParts = ()
    """Its classes are modules."""
    models: NameParts = ()
    """A library of pretrained models, where as many classes are something else: tokenizers, configurations."""
    losses: NameParts = ()
    """Its modules hold no weights."""
    tools: NameParts = ()
    """What a library of modules offers besides: loaders, schedulers, optimizers."""
    begins_evaluating: NameParts = ()
    """Its modules come in evaluation mode."""
    modules_say_so: NameParts = ()
    """Of its classes only those whose names end in `Module` are modules: strategies, loggers and plugins are not."""
    aliases: Mapping[str, str] = {}
    """Other dotted names of a thing, and the one that it is known by."""
    renamed: str = ""
    """The name under which the whole library is known."""
    frameworks: Mapping[str, str] = {}
    """Dotted names that take charge of a training when they are called, and the framework that does so then."""
    prepares: NameParts = ()
    """Those of them that do not train: ranks are told of each other, or options are declared."""
    belongs: tuple[NameParts, str] = ((), "")
    """Parts of which all belongs to a framework, and its name."""
    mentions: NameParts = ()
    """Words of a text that may train with it; a search of the text saves a look at its tree."""
    relevant: bool = False
    """Each function that names it is executed, also in a file that only defines things."""
    distribution: str = ""
    """The name of its package, where reports about a machine tell the version."""

    if not TYPE_CHECKING:
        # To compile a constructor with so many parameters takes longer than all of the table.
        def __init__(self, roots: str, **known: object) -> None:
            self.__dict__.update(known, roots=roots)


def _all(framework: str, root: str, names: str) -> dict[str, str]:
    return dict.fromkeys([f"{root}.{name}" for name in names.split()], framework)


def _pytorch() -> Iterator[LibraryEntry]:
    yield LibraryEntry(
        "torch",
        wins=True,
        known_better=("autograd", "nn", "optim", "utils"),
        harmless=ALL,
        shows=("utils.tensorboard.",),
        computes=ALL,
        shares=("distributed.",),
        modules=("nn.",),
        mentions=("torch",),
        distribution="torch",
        frameworks={"torch.distributed.pipelining.PipelineStage": "pipeline", "torch.distributed.rpc.init_rpc": "rpc"},
        prepares=("distributed.rpc.init_rpc",),
        aliases={
            "torch.utils.data.dataset.": "torch.utils.data.",
            "torch.utils.data.sampler.": "torch.utils.data.",
            "torch.nn.parallel.distributed.DistributedDataParallel": "torch.nn.parallel.DistributedDataParallel",
            "torch.nn.parallel.DataParallel": "torch.nn.DataParallel",
            "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.DataParallel",
            # They deal out a list of graphs, and are torch's otherwise.
            "torch_geometric.nn.DataParallel": "torch.nn.DataParallel",
            "torch_geometric.nn.data_parallel.DataParallel": "torch.nn.DataParallel",
            "torch.utils.data.DistributedSampler": "torch.utils.data.distributed.DistributedSampler",
            "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
            "torch.utils.data.dataset.random_split": "torch.utils.data.random_split",
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
        },
    )
    yield LibraryEntry("torchvision", wins=True, harmless=ALL, modules=("models.",), distribution="torchvision")
    # Synchronises over ranks by itself at `compute()`.
    yield LibraryEntry("torchmetrics", wins=True, harmless=ALL, computes=("functional.",))
    yield LibraryEntry("torch_xla", wins=True, shares=ALL)
    yield LibraryEntry("torchaudio torchtext", wins=True, harmless=ALL)
    yield LibraryEntry("apex torchdata triton jax keras tensorflow", wins=True)


def _training() -> Iterator[LibraryEntry]:
    yield LibraryEntry(
        "accelerate",
        wins=True,
        known_better=("commands", "test_utils", "utils"),
        harmless=("Accelerator.", "accelerator.Accelerator.", "PartialState.", "state.PartialState."),
        shares=ALL,
        belongs=(ALL, "accelerate"),
        frameworks=_all(
            "accelerate", "accelerate", "Accelerator accelerator.Accelerator PartialState state.PartialState"
        ),
        prepares=("PartialState", "state.PartialState"),
        mentions=("accelerate",),
        relevant=True,
        distribution="accelerate",
    )
    yield LibraryEntry(
        "lightning",
        wins=True,
        harmless=(
            "Trainer.",
            "pytorch.Trainer.",
            "Fabric.",
            "fabric.Fabric.",
            "pytorch.lite.LightningLite.",
            "LightningDataModule",
            "pytorch.LightningDataModule",
            "Callback",
            "pytorch.Callback",
            "pytorch.callbacks.Callback",
        ),
        shows=("pytorch.loggers.", "loggers."),
        shares=ALL,
        modules=ALL,
        modules_say_so=ALL,
        belongs=(ALL, "lightning"),
        aliases={"lightning.lite.": "lightning.pytorch.lite."},
        frameworks=_all(
            "lightning",
            "lightning",
            "pytorch.Trainer Trainer Fabric fabric.Fabric pytorch.lite.LightningLite pytorch.cli.LightningCLI",
        ),
        mentions=("lightning",),
        relevant=True,
        distribution="lightning",
    )
    # Lightning 2.0 renamed the import; the old name is still published.
    yield LibraryEntry(
        "pytorch_lightning",
        wins=True,
        shares=ALL,
        modules=ALL,
        modules_say_so=ALL,
        renamed="lightning.pytorch",
        distribution="pytorch-lightning",
    )
    yield LibraryEntry(
        "lightning_fabric",
        wins=True,
        harmless=("Fabric.",),
        frameworks=_all("lightning", "lightning_fabric", "Fabric"),
        mentions=("lightning_fabric",),
        relevant=True,
    )
    yield from _engines()
    yield from _processes()
    yield from _other_frameworks()


def _engines() -> Iterator[LibraryEntry]:
    """Trainers and engines that are a part of a larger library, or run beside the program."""
    # Not `relevant`: projects build their layers of it, and a `Trainer` tells enough.
    yield LibraryEntry(
        "transformers",
        begins_evaluating=ALL,
        wins=True,
        harmless=("Trainer.", "Seq2SeqTrainer."),
        modules=ALL,
        models=ALL,
        frameworks=_all("transformers", "transformers", "Trainer Seq2SeqTrainer"),
        aliases={
            f"transformers.{module}.": "transformers."
            for module in (
                "hf_argparser",
                "optimization",
                "trainer",
                "trainer_callback",
                "trainer_seq2seq",
                "trainer_utils",
                "training_args",
                "training_args_seq2seq",
            )
        },
        mentions=("transformers",),
        distribution="transformers",
    )
    yield LibraryEntry(
        "deepspeed",
        wins=True,
        shares=ALL,
        belongs=(ALL, "deepspeed"),
        # Who adds DeepSpeed's options hands over the training later, perhaps by a switch.
        frameworks=_all(
            "deepspeed", "deepspeed", "initialize init_distributed init_inference add_config_arguments"
        ),
        prepares=("init_distributed", "init_inference", "add_config_arguments"),
        modules=("pipe.PipelineModule",),
        aliases={
            "deepspeed.PipelineModule": "deepspeed.pipe.PipelineModule",
            "deepspeed.runtime.pipe.module.PipelineModule": "deepspeed.pipe.PipelineModule",
        },
        mentions=("deepspeed",),
        relevant=True,
        distribution="deepspeed",
    )  # fmt: skip
    # The bare word is a part of `array`.
    yield LibraryEntry(
        "ray",
        wins=True,
        belongs=(("train.",), "ray"),
        frameworks=_all(
            "ray", "ray", "train.torch.TorchTrainer train.torch.prepare_model train.torch.prepare_data_loader"
        ),
        mentions=("import ray", "from ray"),
        relevant=True,
        distribution="ray",
    )


def _processes() -> Iterator[LibraryEntry]:
    """What starts processes, and what they talk to each other by."""
    yield LibraryEntry(
        "horovod",
        wins=True,
        shares=ALL,
        belongs=(ALL, "horovod"),
        frameworks=_all("horovod", "horovod", "torch.init torch.DistributedOptimizer"),
        prepares=("torch.init",),
        harmless=("torch.init",),
        mentions=("horovod",),
        relevant=True,
    )
    # As everybody imports horovod, where the import is out of sight.
    yield LibraryEntry("hvd", belongs=(ALL, "horovod"), mentions=("hvd",), relevant=True)
    yield LibraryEntry("mpi4py", wins=True, shares=ALL, harmless=ALL)
    yield LibraryEntry("multiprocessing", shares=ALL, aliases={
        # torch's module is the standard one with shared tensors added.
        "multiprocessing.Process": "torch.multiprocessing.Process",
        "multiprocessing.set_start_method": "torch.multiprocessing.set_start_method",
        "multiprocessing.get_context": "torch.multiprocessing.get_context",
        "multiprocessing.Queue": "torch.multiprocessing.Queue",
        "multiprocessing.SimpleQueue": "torch.multiprocessing.SimpleQueue",
        "multiprocessing.JoinableQueue": "torch.multiprocessing.JoinableQueue",
    })  # fmt: skip
    yield LibraryEntry("threading", shares=ALL)


_D2_TRAINERS = (
    "engine.DefaultTrainer engine.SimpleTrainer engine.AMPTrainer engine.defaults.DefaultTrainer "
    "engine.train_loop.SimpleTrainer engine.train_loop.AMPTrainer"
)


def _other_frameworks() -> Iterator[LibraryEntry]:
    def taking_part(
        root: str,
        names: str = "",
        name: str = "",
        parts: NameParts = (),
        wins: bool = False,
        shadowed: bool = False,
        prepares: NameParts = (),
        modules: NameParts = (),
    ) -> LibraryEntry:
        name = name or root
        charge = _all(name, root, names)
        return LibraryEntry(
            root,
            wins=wins,
            shadowed=shadowed,
            frameworks=charge,
            prepares=prepares,
            modules=modules,
            belongs=(parts, name),
            mentions=(root,),
            relevant=True,
        )

    yield taking_part("bagua", "torch_api.init_process_group", prepares=("torch_api.init_process_group",))
    yield taking_part("byteps", "torch.init", prepares=("torch.init",))
    yield taking_part("catalyst", "dl.SupervisedRunner", shadowed=True)
    yield taking_part(
        "colossalai", "launch launch_from_torch booster.Booster initialize", parts=ALL, wins=True
    )  # fmt: skip
    yield taking_part("composer", "Trainer", parts=ALL, wins=True, modules=("models.", "ComposerModel"))
    yield taking_part("detectron2", _D2_TRAINERS, parts=("data.build",), wins=True, modules=("modeling.", "layers."))
    yield taking_part("fairscale", parts=ALL, wins=True)
    yield taking_part("ignite", parts=("distributed.",), wins=True)
    yield taking_part("megatron", parts=ALL, shadowed=True)
    yield taking_part("mmcv", "runner.build_runner", "mmengine", parts=ALL, wins=True)
    yield taking_part("mmengine", "runner.Runner", parts=ALL, wins=True, modules=("model.",))
    yield taking_part("smdistributed", parts=ALL)
    yield taking_part("tensor_parallel", "tensor_parallel TensorParallel", "tensor parallel")
    yield taking_part("torchtnt", name="tnt", parts=ALL)
    yield taking_part(
        "torchrec",
        "distributed.DistributedModelParallel distributed.model_parallel.DistributedModelParallel "
        "distributed.TrainPipelineBase distributed.TrainPipelineSparseDist "
        "distributed.train_pipeline.TrainPipelineBase distributed.train_pipeline.TrainPipelineSparseDist",
        wins=True,
    )  # fmt: skip
    # Not `relevant`: projects take their layers from these, in every other file.
    yield LibraryEntry(
        "fairseq",
        shadowed=True,
        modules=("models.", "modules."),
        belongs=(("distributed", "model_parallel.", "options.", "trainer."), "fairseq"),
        mentions=("fairseq",),
    )
    # Its layers, schedules and downloads serve other loops as well.
    yield LibraryEntry(
        "fastai",
        shadowed=True,
        belongs=(
            ("basic_train", "basics.", "callback", "distributed", "learner.", "tabular.", "text.", "vision."), "fastai"
        ),
        mentions=("fastai",),
    )  # fmt: skip
    yield LibraryEntry("mmdet", shadowed=True, belongs=(ALL, "mmengine"), mentions=("mmdet",))
    # Many programs take a ready model of it, and train by themselves.
    yield LibraryEntry(
        "speechbrain",
        belongs=(
            ("Brain", "core.", "create_experiment_directory", "parse_arguments", "utils.distributed."),
            "speechbrain",
        ),
        mentions=("speechbrain",),
    )
    yield LibraryEntry(
        "trl",
        shadowed=True,
        belongs=(ALL, "transformers"),
        frameworks=_all(
            "transformers", "trl", "SFTTrainer RewardTrainer DPOTrainer KTOTrainer ORPOTrainer CPOTrainer GRPOTrainer"
        ),
        aliases={
            f"{module}.TrlParser": "transformers.HfArgumentParser"
            for module in ("trl", "trl.commands.cli_utils", "trl.scripts.utils")
        },
        mentions=("import trl", "from trl"),
    )


def _models() -> Iterator[LibraryEntry]:
    """Models, layers and data sets."""
    yield LibraryEntry(
        "diffusers",
        shadowed=True,
        modules=ALL,
        models=ALL,
        begins_evaluating=ALL,
        # The same schedules, and the same seed for all ranks.
        aliases={
            "diffusers.optimization.": "transformers.",
            "diffusers.training_utils.EMAModel": "diffusers.EMAModel",
            "diffusers.training_utils.set_seed": "transformers.set_seed",
        },
    )
    yield LibraryEntry("peft", shadowed=True, begins_evaluating=ALL)
    yield LibraryEntry("pytorch_transformers pytorch_pretrained_bert", models=ALL)
    yield LibraryEntry("segmentation_models_pytorch", losses=("losses.",))
    # Its engines take charge, and are not among these.
    yield LibraryEntry(
        "monai",
        shadowed=True,
        harmless=("data.", "inferers.", "losses.", "metrics.", "networks.", "transforms.", "utils."),
        modules=("networks.nets.", "networks.blocks.", "networks.layers.", "losses."),
        losses=("losses.",),
        aliases={
            "monai.data.DataLoader": "torch.utils.data.DataLoader",
            "monai.data.ThreadDataLoader": "torch.utils.data.DataLoader",
        },
    )
    yield LibraryEntry(
        "timm",
        shadowed=True,
        harmless=("data.", "layers.", "scheduler.", "utils.get_state_dict", "utils.model."),
        modules=ALL,
        losses=("loss.",),
        tools=(
            *("utils.", "data.", "scheduler.", "optim.", "layers.to_", "layers.get_", "layers.make_divisible"),
            *("layers.trunc_normal_", "layers.drop_path"),
        ),
        # Where they were until timm 0.8, and where each is written.
        aliases={"timm.models.layers.": "timm.layers.", "timm.layers.helpers.": "timm.layers."},
    )
    yield LibraryEntry("fvcore", harmless=("nn.",), aliases={"fvcore.common.config.": "yacs.config."})
    yield LibraryEntry("datasets", shadowed=True, harmless=ALL, shares=("distributed.",))
    yield LibraryEntry("webdataset", shadowed=True, shares=ALL)
    yield LibraryEntry("huggingface_hub safetensors sentencepiece tiktoken tokenizers", shadowed=True, harmless=ALL)
    yield LibraryEntry("bitsandbytes clip dgl evaluate mmseg onnx spacy streaming xformers", shadowed=True)
    yield LibraryEntry("torch_geometric", wins=True, known_better=("data", "loader", "nn", "utils"))


def _showing() -> Iterator[LibraryEntry]:
    """Who is told the numbers, and who keeps them."""
    yield LibraryEntry("logging", shows=ALL)
    yield LibraryEntry("tensorboard", wins=True, shows=ALL)
    yield LibraryEntry("mlflow", shadowed=True, harmless=ALL, shows=ALL)
    yield LibraryEntry("tensorboardX tqdm wandb", wins=True, harmless=ALL, shows=ALL)
    yield LibraryEntry("aim clearml comet_ml dllogger loguru neptune rich swanlab visdom", harmless=ALL, shows=ALL)


def _settings() -> Iterator[LibraryEntry]:
    """What the user has configured."""
    yield LibraryEntry("json", settings=("load",))
    yield LibraryEntry("os", aliases={"os.environ.get": "os.getenv"})
    asked = ("basename", "dirname", "exists", "isdir", "join")
    files = {f"blobfile.{name}": f"os.path.{name}" for name in asked}
    made = {f"blobfile.{name}": f"os.{name}" for name in ("listdir", "makedirs")}
    yield LibraryEntry("blobfile", harmless=ALL, aliases={**files, **made})
    yield LibraryEntry("absl", shadowed=True, harmless=ALL, settings=ALL, calls_given=("app.run",))
    yield LibraryEntry("fire", shadowed=True, harmless=ALL, settings=ALL, runs_commands=ALL, calls_given=("Fire",))
    yield LibraryEntry("omegaconf yaml", wins=True, harmless=ALL, settings=ALL)
    yield LibraryEntry("ruamel", harmless=ALL, settings=ALL, aliases={"ruamel.yaml.": "yaml."})
    # The same under conda's name.
    yield LibraryEntry("ruamel_yaml", harmless=ALL, settings=ALL, aliases={"ruamel_yaml.": "yaml."})
    yield LibraryEntry("click", wins=True, harmless=ALL, settings=ALL, runs_commands=ALL)
    # What it makes of a setting file may train, and is imported nowhere.
    yield LibraryEntry("hydra", wins=True, harmless=ALL, settings=ALL, runs_commands=ALL, mentions=("hydra",))
    yield LibraryEntry(
        "fastcore",
        harmless=ALL,
        runs_commands=("script.",),
        starts=("script.call_parse",),
        aliases={"fastcore.all.call_parse": "fastcore.script.call_parse"},
    )
    yield LibraryEntry("sacred", starts=("Experiment.automain",))
    yield LibraryEntry("typer", settings=ALL, runs_commands=ALL, calls_given=("run",))
    yield LibraryEntry("draccus pyrallis", harmless=ALL, settings=ALL, runs_commands=("wrap", "argparsing.wrap"))
    yield LibraryEntry("argbind cattr cattrs dacite gin tap", harmless=ALL, settings=ALL)
    yield LibraryEntry("docopt dotenv dotmap easydict ml_collections toml tomli yacs", harmless=ALL, settings=ALL)
    yield LibraryEntry("tyro", harmless=ALL, settings=ALL, calls_given=("cli",))
    yield LibraryEntry("icefall", settings=("utils.AttributeDict",), harmless=("utils.AttributeDict",))
    # In a `Munch` of their own people keep models, too.
    yield LibraryEntry("munch", settings=("munchify", "Munch.fromDict"), harmless=("munchify", "Munch.fromDict"))
    yield LibraryEntry("configparser tomlkit tomllib", settings=ALL)
    yield LibraryEntry("simple_parsing", settings=ALL, calls_given=("parse",))
    yield LibraryEntry(
        "jsonargparse",
        settings=ALL,
        calls_given=("CLI", "auto_cli"),
        aliases={"jsonargparse.cli.": "jsonargparse."},
    )
    yield LibraryEntry("argh", calls_given=("dispatch_command",))
    yield LibraryEntry("clize cyclopts defopt", calls_given=("run",))
    yield LibraryEntry("plac", calls_given=("call",))
    yield LibraryEntry("dataclasses", makes_fields=("dataclass",))
    yield LibraryEntry("typing", makes_fields=("NamedTuple",))
    yield LibraryEntry("attr", harmless=ALL, makes_fields=("s", "attrs", "define"))
    yield LibraryEntry("attrs", harmless=ALL, makes_fields=("define", "frozen"))
    yield LibraryEntry("chz", makes_fields=("chz",))
    yield LibraryEntry("pydantic", harmless=ALL, makes_fields=ALL)
    yield LibraryEntry("msgspec pydantic_settings", makes_fields=ALL)


def _computing() -> Iterator[LibraryEntry]:
    """Numbers and tables."""
    yield LibraryEntry("einops torch_scatter", shadowed=True, harmless=ALL, computes=ALL)
    yield LibraryEntry("numpy", wins=True, harmless=ALL, computes=ALL, draws=("random.",))
    yield LibraryEntry("pandas scipy sklearn", wins=True, harmless=ALL, computes=ALL)
    yield LibraryEntry("random secrets", draws=ALL)
    yield LibraryEntry("functools itertools math operator statistics", computes=ALL)


_HARMLESS = """
    altair bokeh fastprogress livelossplot mpl_toolkits plotly seaborn
    google IPython ipywidgets kaggle_secrets
    accimage albumentations cc3d geopandas imageio imgaug medpy nibabel netCDF4 plyfile pycocotools pydicom pymeshlab
    pyproj pyrender pywt rasterio shapely SimpleITK skimage tifffile trimesh turbojpeg xarray
    asteroid_filterbanks audiomentations cn2an editdistance ftfy g2p_en inflect jieba jiwer kaldi_native_fbank kaldiio
    langdetect Levenshtein librosa nara_wpe nltk num2words opencc parselmouth pesq phonemizer praatio pycocoevalcap
    pydub pypinyin pyroomacoustics pysptk pystoi pyworld regex resampy rouge rouge_score sacrebleu sacremoses soundfile
    speechmos textgrid unidecode
    anndata ase Bio biotite igraph matscipy mdtraj mne networkx ogb openmm pymatgen rdkit scanpy
    boto3 filelock fsspec gcsfs gdown iopath jsonlines megfile msgpack natsort openpyxl orjson oss2 petrel_client polars
    pyarrow s3fs sqlalchemy tables ujson wget zarr zstandard
    argoverse av decord ffmpeg imageio_ffmpeg laspy mediapipe mir_eval motmetrics moviepy museval numba nuscenes open3d
    pretty_midi pyloudnorm pyquaternion skvideo soxr webrtcvad
    atari_py crafter d4rl dm_control gym gymnasium minari mujoco_py procgen
    causal_conv1d chamfer cupy diff_gaussian_rasterization e3nn flash_attn knn_cuda kornia lpips mamba_ssm
    MinkowskiEngine MultiScaleDeformableAttention nvdiffrast piq pointnet2_ops pytorch3d pytorch_msssim simple_knn
    spconv torch_cluster torch_sparse torchdiffeq torchsparse
    cleanfid efficientnet_pytorch encodec faiss geffnet onnxruntime pretrainedmodels pytorch_fid pytorch_warmup
    torch_fidelity warmup_scheduler
    beartype braceexpand cloudpickle coolname dateutil git icecream jaxtyping jinja2 line_profiler memory_profiler
    pkg_resources pytz typeguard
    colorama colorlog coloredlogs GPUtil gpustat packaging prettytable psutil ptflops pynvml six termcolor thop
    torchinfo torchsummary torchviz
"""
"""Pictures of numbers; what notebooks have at hand; images, bodies and the earth; sound and text; molecules and
networks; files of all kinds; roads, rooms, films and music; games; operators and layers; what is ready made;
what a program says of its own code; and the rest."""


def _others() -> Iterator[LibraryEntry]:
    yield LibraryEntry("cv2 matplotlib PIL", wins=True, harmless=ALL)
    yield LibraryEntry("h5py lmdb requests tabulate", shadowed=True, harmless=ALL)
    yield LibraryEntry(_HARMLESS, harmless=ALL)


LIBRARIES: tuple[LibraryEntry, ...] = (
    *_pytorch(),
    *_training(),
    *_models(),
    *_showing(),
    *_settings(),
    *_computing(),
    *_others(),
)


BY_ROOT = ("harmless", "shows", "computes")
"""Fields that are mostly about libraries as a whole: they are asked by the root first."""
BY_PREFIX = (
    *("runs_commands", "settings", "draws", "shares", "modules", "models", "losses", "tools", "begins_evaluating"),
    *("modules_say_so", "starts", "calls_given", "makes_fields"),
)


def derived() -> dict[str, Any]:
    """The lists that are made of the table: what `compiled.py` keeps."""
    told: dict[str, list[tuple[str, Any]]] = {name: [] for name in LibraryEntry.__annotations__}
    for each in LIBRARIES:
        for field, known in vars(each).items():
            told[field].append((each.roots, known))
    return {
        "roots": {
            **{field: _roots(told[field]) for field in ("wins", "shadowed", "relevant", *BY_ROOT)},
            "known": frozenset(" ".join(each.roots for each in LIBRARIES).split()),
        },
        "parts": {field: _prefixes([each for each in told[field] if each[1] != ALL]) for field in BY_ROOT},
        "prefixes": {field: _prefixes(told[field]) for field in BY_PREFIX},
        "mentions": _joined(each.mentions for each in LIBRARIES),
        "relevant mentions": _joined(each.mentions for each in LIBRARIES if each.relevant),
        "taking charge": {name: framework for _, names in told["frameworks"] for name, framework in names.items()},
        "prepares": tuple([f"{root}.{name}" for root, names in told["prepares"] for name in names]),
        "belonging": {f"{root}.{part}": name for root, (parts, name) in told["belongs"] for part in parts},
        "known better": dict(told["known_better"]),
        "aliases": {
            **{name: known for _, names in told["aliases"] for name, known in names.items()},
            **{f"{root}.": f"{known}." for root, known in told["renamed"]},
        },
    }


def _roots(told: list[tuple[str, Any]]) -> frozenset[str]:
    """The libraries that a field says something about as a whole."""
    return frozenset(" ".join([names for names, known in told if known in (True, ALL)]).split())


def _prefixes(told: list[tuple[str, Any]]) -> tuple[str, ...]:
    """What the dotted names begin with that a field is about."""
    return tuple([f"{root}.{part}" for names, parts in told for root in names.split() for part in parts])


def _joined(parts: Iterable[NameParts]) -> NameParts:
    return tuple([each for part in parts for each in part])
