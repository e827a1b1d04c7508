"""Names that say that a function is worth executing, wherever it stands: made of the stubs and the table of libraries.

A library's name is known by its stub. What a project calls helpers of its own, and methods of objects that nobody
knows, are told by the words that such names are made of: those of the stubs, and a few that no library has. What is
found is wider than any rule, so nothing is reported on account of a word. The patterns are kept compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpudoctor.manifest.effects import RANKS
from gpudoctor.manifest.spellings import BEGINNING, squeezed

_RELEVANT = ("between_two", "collective", "makes_group", "matters", "starts_ranks", "trains")
_TRAINING = ("starts_ranks", "trains")

COMMON = frozenset(
    """
    backward bcast compute evaluate fit gather get_rank get_size get_state_dict grad init initialize irecv isend join
    launch load log node num_nodes num_tasks predict prepare_model process rank recv reduce run save save_state scatter
    send size spawn test train val validate
    """.split()
)
"""Names of many things: they count with their library alone. A test compares them with what tensors and Python have."""
OWN_WORDS = "ddp DDP fsdp FSDP sync synchronize rank ranks RANK".split()
"""What names of a project's own are made of that are about ranks, as whole words."""
OWN_PARTS = """
    istributed dist. WORLD_SIZE orld_size orldSize PROCID LOCALID gloo nccl
    is_main on_main main_proc main_only is_master on_master master_proc master_only
    is_primary on_primary is_chief on_chief spawn start_processes Process( launcher
    gather_object gather_tensor gather_all gather_from gather_list
    reduce_dict reduce_tensor reduce_mean reduce_value reduce_loss reduce_scatter
    Sampler set_epoch backward( orovod hvd. mpi4py deepspeed DeepSpeed ccelerator ightning Fabric Trainer
""".split()
"""The same anywhere in a name."""
TEXTS = "RANK|WORLD_SIZE|PROCID|LOCALID|nccl|gloo|torch\\.distributed|horovod|deepspeed"
"""Of texts only names of variables, backends and modules count."""
OWN_ENDINGS = "DDP FSDP DataParallel Trainer Runner".split()
"""How projects call what wraps and what trains."""
OTHER_MEANINGS = r"""(?x)
    broadcast_?(?:to|tensors?|shapes?|arrays|all|in_dim|batch_dims)\b | (?:reshape|_)_(?:for|maybe)_broadcast\b
    | (?:lora|low|step|dt|modifier|matrix|tensor|full)_ranks? | bpe_ranks | save_for_backward\(
    | (?:[Dd]own|[Uu]p|[Rr]e|[Gg]rid|[Ii]mage|[Tt]oken)_?[Ss]ampler | (?:Unigram|WordPiece|Bpe|WordLevel)Trainer
    | is_\w+_(?:available|enabled|module|initialized)\b | distributed\.is_(?:available|initialized)\b
    | \bdeepspeed\.is_\w+ | \bis_fsdp_\w+ | _fsdp_plan | \bdist\.(?:max|min|arg|permute|sample|log_prob)
    | \btorch\.accelerator\. | (?:current|get)_accelerator | _accelerator_graph
    | Trainer(?:Callback|State|Control)\b | LightningAttention
"""
"""What only looks so: shapes, matrices, images, tokenizers, questions that are answered without a process group."""


def patterns(said: Mapping[str, Any], listed: Mapping[str, Any]) -> dict[str, Any]:
    """`words` to look for in a text, what names are made of that are `telling`, and the names of what trains when it
    is called."""
    aliases = {**listed["aliases"], **said["aliases"]}
    relevant = [*_names(said, _RELEVANT), *listed["taking charge"]]
    training = _names(said, _TRAINING)
    training += [name for name in listed["taking charge"] if name not in listed["prepares"]]
    roots = sorted(listed["roots"]["relevant"])
    words = _shortest(_last(name) for name in (*relevant, *training) if not _is_common(name))
    common = [name for name in (*relevant, *training) if _is_common(name)]
    dotted = sorted({*common, *(name for name, known in aliases.items() if known in common)})
    telling = [
        *((word, _spellings(word)) for word in words),
        *((word, rf"(?<![a-z]){word}(?![a-z])") for word in OWN_WORDS),
        *((part, rf"(?:^|\.){re.escape(part)}" if part.endswith(".") else "") for part in OWN_PARTS),
        *((name, rf"^{re.escape(name)}(?:\.|$)") for name in roots),
        *((name, rf"^{re.escape(name)}(?:\(|$)") for name in dotted),
    ]
    searched = [each for word in words for each in _searched(word)]
    searched += [each for name in dotted for each in (_import(name), ".".join(name.split(".")[-2:]) + "(")]
    called = {_last(name) for name in training if not _is_common(name)}
    # `MMDistributedDataParallel` is one as well, and `backward` is a method of anything.
    endings = {*OWN_ENDINGS, *(each for each in called if not each.islower())}
    names = {"backward", *(each for each in called if each.islower())}
    names.update(name for name in dotted if aliases.get(name, name) in training)
    return {
        "searched": tuple(_shortest([*searched, *OWN_WORDS, *OWN_PARTS])),
        "telling": _by_beginning(telling),
        "training": (frozenset(names), tuple(sorted(endings))),
        "texts": TEXTS,
        "other meanings": OTHER_MEANINGS,
    }


def _names(said: Mapping[str, Any], words: Iterable[str]) -> list[str]:
    """The functions and methods at which one of the words stands, and all that says who a process is."""
    members = {name: each for name, each in {**said["functions"], **said["methods"]}.items() if not _is_own(name)}
    found = [name for name, (*_, effects) in members.items() if any(word in effects for word in words)]
    if "collective" in words:
        found += [name for name, (*_, returns, _) in members.items() if returns in RANKS]
        found += [name for name, kind in {**said["values"], **said["attributes"]}.items() if kind in RANKS]
    return found


def _is_own(name: str) -> bool:
    """A stub keeps it to itself, or the class whose method it is, `_Ranks.start`: it is in no program."""
    above, _, last = name.rpartition(".")
    cls = _last(above)
    return last.startswith("_") or (cls.startswith("_") and cls[1:2].isupper())


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _is_common(name: str) -> bool:
    return _last(name).lower() in COMMON


def _shortest(words: Iterable[str]) -> list[str]:
    """The words without those that another one is a part of."""
    every = set(words)
    return sorted(each for each in every if not any(other in each for other in every if other != each))


def _by_beginning(telling: Iterable[tuple[str, str]]) -> dict[str, tuple[tuple[str, str, str], ...]]:
    """By the first letters of what is squeezed out of them: the parts that make a name telling, squeezed and as they
    stand, and the pattern that they stand in; none where that is the part itself. One pattern for all would be long,
    and is dearer to compile than all names of a project are to look at."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for part, pattern in telling:
        short = squeezed(part)
        found.setdefault(short[:BEGINNING], []).append((short, part, pattern))
    return {beginning: tuple(parts) for beginning, parts in found.items()}


def _spellings(word: str) -> str:
    """`all_reduce` as it may be spelled in names that are made of it: `allreduce_grads`, `AllReduce`."""
    parts = [each for each in word.split("_") if each]
    if word != word.lower():
        return ""
    return "_?".join(f"[{each[0].lower()}{each[0].upper()}]{re.escape(each[1:])}" for each in parts)


def _import(name: str) -> str:
    """What imports it by its last name, which alone says nothing. From `torch` itself everybody imports something."""
    module, _, last = name.rpartition(".")
    return f"from {module} import" if "." in module else f"from {module} import {last}"


def _searched(word: str) -> Iterator[str]:
    """What a search of a text finds these spellings by: without the first letter, which may be a capital."""
    parts = [each for each in word.split("_") if each]
    if word != word.lower():
        yield word
        return
    yield "_".join(parts)[1:]
    yield "".join(parts)[1:]
    yield parts[0][1:] + "".join(each.capitalize() for each in parts[1:])
