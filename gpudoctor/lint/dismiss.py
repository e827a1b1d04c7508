"""Files without an entry that no rule would say anything about, told by their words and their constructors.

Most files of a large project define layers and compute. To execute every function of them on paper takes a hundred
times as long as to see that they neither wrap, shard, load, save, train nor talk to other ranks. What is looked for
here is wider than any rule: where something comes close, the file is executed.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.lint.source.file import SourceFile

# Wrappers, ranks and groups; loaders; training steps; files; loggers;
# clocks and switches; frameworks that do such things.
_WORDS = (
    *"""
    DataParallel DDP FSDP fully_shard SyncBatchNorm
    torch.distributed .distributed distributed. distributed_ _distributed dist. all_reduce allreduce all_gather
    allgather barrier broadcast( broadcast_ rank RANK WORLD_SIZE world_size gloo nccl
    spawn multiprocessing horovod hvd mpi4py device_ids set_device
    DataLoader Sampler set_epoch batch_size=
    backward( .step( zero_grad autograd.grad .optim optimizer
    torch.load torch.save load_state_dict save_pretrained save_checkpoint .save( .dump(
    wandb SummaryWriter mlflow tensorboard
    perf_counter time.time timeit Event( anomaly LAUNCH_BLOCKING
    deepspeed DeepSpeed accelerat Accelerat lightning Lightning Fabric Trainer ignite composer colossalai fairscale
    gpudoctor: environ
    """.split(),
    # `array` and licences hold the bare words.
    "import ray",
    "from ray",
    "import distributed",
    "from distributed",
)
_MOVE = re.compile(r"\.(?:to|cuda|cpu|xpu|type|half|float|double|bfloat16|int|long|bool)\(")
_CONTAINER = re.compile(r"\bself\.\w+(?:: [^=\n]{1,80})? = (?:\[|\{|list\(|dict\()")
_CONTAINERS = (ast.List, ast.Dict, ast.ListComp, ast.DictComp)


def says_nothing(file: SourceFile) -> bool:
    """Nothing in this file comes close to what rules are about. Only for files without an entry."""
    text = file.text
    if any(word in text for word in _WORDS) or _CONTAINER.search(text) or _drops_a_move(text):
        return False
    classes = [node for node in file.tree.body if isinstance(node, ast.ClassDef)]
    return all(_is_plain(method) for each in classes for method in each.body)


def _drops_a_move(text: str) -> bool:
    """A line that could be a move, or a cast, whose result nobody keeps."""
    for found in _MOVE.finditer(text):
        before = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        if "=" not in before and not before.lstrip().startswith(("return ", "yield ", "assert ", "#")):
            return True
    return False


def _is_plain(member: ast.stmt) -> bool:
    """No constructor that might forget `super().__init__()`, or hide layers in a list."""
    # A class inside a class is too rare to be looked into.
    if isinstance(member, ast.ClassDef):
        return False
    if not isinstance(member, ast.FunctionDef) or member.name != "__init__":
        return True
    nodes = list(ast.walk(member))
    assigned = [node for node in nodes if isinstance(node, (ast.Assign, ast.AnnAssign)) and _is_attribute(node)]
    if not assigned:
        return True
    containers = any(isinstance(node, ast.Assign) and isinstance(node.value, _CONTAINERS) for node in nodes)
    if containers and any(isinstance(node.value, ast.Name) for node in assigned):
        return False
    constructors = [node.lineno for node in nodes if isinstance(node, ast.Attribute) and node.attr == "__init__"]
    return bool(constructors) and min(constructors) < min(node.lineno for node in assigned)


def _is_attribute(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(each, ast.Attribute) for target in targets for each in ast.walk(target))
