"""What a name says by itself. Where a library's stub says nothing of a thing, its name decides what it is taken for:
all such guesses are here, each with how good it is known to be.

One that is `DEFINITE` rests on a convention that the library itself keeps, and its exceptions are listed. One that is
`LIKELY` silences, or is logged where it decides (`class_kinds.guess`): what is found with the value is reported as
likely, with the reason.
"""

from __future__ import annotations

import re

from gpudoctor.diagnostic import Confidence


class Heuristic:
    """A guess by the last part of a dotted name. `means` is what the thing is taken for, with its article."""

    __slots__ = ("beginnings", "but", "confidence", "endings", "means", "names", "parts", "sure_in", "within")

    # Written out: these few are made at each start.
    def __init__(
        self,
        means: str,
        confidence: Confidence,
        *,
        names: tuple[str, ...] = (),
        endings: tuple[str, ...] = (),
        beginnings: tuple[str, ...] = (),
        parts: tuple[str, ...] = (),
        but: tuple[str, ...] = (),
        sure_in: tuple[str, ...] = (),
        within: tuple[str, ...] = (),
    ) -> None:
        self.means, self.confidence = means, confidence
        self.names, self.endings, self.beginnings = names, endings, beginnings
        # What stands anywhere in a name, in lower case.
        self.parts = parts
        # How names begin that mean something else, and the libraries in which it is no guess.
        self.but, self.sure_in = but, sure_in
        # The modules of which all classes are such.
        self.within = within

    def fits(self, name: str) -> bool:
        """The name says so."""
        if name.startswith(self.within):
            return True
        last = name.rpartition(".")[2]
        said = last in self.names or last.endswith(self.endings) or last.startswith(self.beginnings)
        return (said or any(part in last.lower() for part in self.parts)) and not last.startswith(self.but)


_SURE, _LIKELY = Confidence.DEFINITE, Confidence.LIKELY

OPTIMIZER = Heuristic("an optimizer", _LIKELY)
"""A class of any library that is given the parameters of a model: Lion, LAMB, Adan, SAM. What is no class clips them or
counts them."""
MODULES_OF_DATASETS = ("torchvision.datasets.", "torchaudio.datasets.", "torch_geometric.datasets.")
DATASET = Heuristic(
    "a data set",
    _LIKELY,
    names=("Dataset", "IterableDataset", "VisionDataset", "ImageFolder", "TensorDataset", "Subset"),
    sure_in=("torch.", "torchvision.", *MODULES_OF_DATASETS),
    within=MODULES_OF_DATASETS,
)
SAMPLER = Heuristic(
    "a sampler",
    _LIKELY,
    names=("Sampler", "BatchSampler", "DistributedSampler", "RandomSampler", "SubsetRandomSampler"),
    sure_in=("torch.",),
)
LOSS = Heuristic("a loss", _SURE, names=("kl_div",), parts=("loss", "cross_entropy"))
"""`nll_loss`, `CrossEntropyLoss`: the names of torch and of libraries of losses have no other word in common."""
_AVERAGING = ("Esm", "Gemma3", "Gemma4", "Glm4", "PaliGemma", "PaddleOCRVL", "Qwen2VL", "Qwen2_5_VL", "Qwen3VL")
"""Models of Transformers that say `accepts_loss_kwargs = False`."""
LANGUAGE_MODEL = Heuristic(
    "a language model", _SURE, parts=("causallm", "lmheadmodel", "conditionalgeneration", "seq2seqlm"), but=_AVERAGING
)
"""Of Transformers: what their losses are made of says how its Trainer divides them."""
TEXT_CLASSIFIER = Heuristic(
    "a model with labels for texts", _SURE,
    parts=("maskedlm", "multiplechoice", "questionanswering", "sequenceclassification", "tokenclassification"),
    but=_AVERAGING,
)  # fmt: skip
"""Of Transformers, too: since version 5 their losses are divided likewise."""
PIPELINE = Heuristic("a pipeline", _SURE, endings=("Pipeline",))
"""In libraries of models: it holds several of them, and writes them with itself."""
SHOWS_SAMPLES = Heuristic(
    "a method that shows samples", _SURE,
    names=("add_histogram", "add_mesh", "add_embedding", "add_text", "add_video"),
    beginnings=("add_audio", "add_figure", "add_image", "log_audio", "log_figure", "log_image", "log_video"),
)  # fmt: skip
"""Of TensorBoard and other logs of experiments: those of one process are as good as any."""
CONVOLUTION = Heuristic("a layer", _SURE, endings=("Conv",))
"""In the libraries of layers for graphs: what models and functions of these hold is not known."""
NO_MODULE = Heuristic(
    "no module",
    _SURE,
    endings=(
        *("Config", "Tokenizer", "Dataset", "Trainer", "Callback", "DataModule", "Arguments", "Parameter", "Processor"),
        *("Scheduler", "Pipeline", "Criteria", "Extractor", "Output", "State", "Streamer", "Collator", "Mixin"),
        *(
            "Agent",
            "Constraint",
            "Encoding",
            "Parser",
            "Tool",
            "Warper",
            "TokenizerFast",
            "ProcessorFast",
            "ExtractorFast",
        ),
    ),
    # The mixin of models of diffusers is a module itself.
    but=("ModelMixin",),
)
"""Libraries of models hold as many classes that are none."""
NO_READY_MODEL = Heuristic(
    "no model",
    _SURE,
    endings=(
        *("Tokenizer", "TokenizerFast", "Processor", "Config", "FeatureExtractor", "ImageProcessor", "Scheduler"),
        *("Pipeline", "Collator", "Arguments", "Dataset"),
    ),
)
"""What else has a `from_pretrained`."""
READY_MODEL = Heuristic("a model", _SURE, endings=("Model", "LMHeadModel", "Classification", "Generation", "LM"))
AVERAGED_MODEL = Heuristic("an average of the weights", _SURE, beginnings=("ModelEma",))
"""A model of its own, among the tools of a library of models."""
TRAINING_SETTINGS = Heuristic("the settings of a training", _SURE, endings=("TrainingArguments", "Config"))
"""Among the classes that the stubs of transformers and trl list."""
COLLATOR = Heuristic("a collator", _SURE, beginnings=("DataCollator",))
RUNS_TRAINING = Heuristic("what runs the training", _SURE, endings=("Trainer", "Runner", "Engine"))
"""In frameworks: where it is wrong, rules stand back that had something to say."""
TRAINS = Heuristic(
    "what trains",
    _LIKELY,
    beginnings=("train_",),
    parts=("trainer",),
    but=("train_test", "train_val", "train_data", "train_set", "train_load", "train_trans", "train_aug", "register"),
)
"""Of a library that was not read. Nothing is judged by it: it is told where a program trains nothing that was seen."""
RANK = Heuristic("a rank", _LIKELY, names=("rank", "local_rank", "global_rank"))
"""Settings and parameters, which whoever starts the processes gives each of them another one of. Where it is wrong, a
rule stands back that had something to say."""
OWN_DISK = Heuristic("a folder of one node", _LIKELY, parts=("tmp", "scratch", "local"))
"""What holds a path: a variable of the environment, an option. It silences likewise."""
NORMALISED = Heuristic(
    "a model with batch normalisation",
    _SURE,
    beginnings=(
        *("resnet", "resnext", "wide_resnet", "densenet", "mobilenet", "efficientnet", "googlenet", "inception"),
        *("shufflenet", "mnasnet", "regnet"),
    ),
    endings=("_bn",),
)
"""Families of torchvision, unless they are given another kind of layer."""

_GROUP_WORDS = frozenset({"dist", "distrib", "distribute", "distributed", "launch", "launched", "launcher"})
_GPU_WORDS = frozenset({"cuda", "device", "devices", "env", "gpu", "gpus", "init", "rank", "setup"})
_WORD = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])"


def begins_group(name: str) -> bool:
    """Of a library that was not read: the words of its name, which is what `mmcv.initDist_of` has of mmcv, init, dist
    and of, say that it makes the process group."""
    return not _GROUP_WORDS.isdisjoint(_words_of(name))


def has_to_do_with_gpus(name: str) -> bool:
    """The same of a GPU that it makes the current one, as what sets a process up does: `mylib.setup`."""
    return not _GPU_WORDS.isdisjoint(_words_of(name))


def _words_of(name: str) -> list[str]:
    return [word.lower() for word in re.findall(_WORD, name)]


def has_to_do_with_seeds(name: str) -> bool:
    """Of code that was not read: `utils.set_seed`, `seeding.fix`. Rules that miss a seed stand back."""
    return "seed" in name.lower()
