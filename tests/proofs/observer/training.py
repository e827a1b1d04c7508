"""Forward, backward and step: the models that train, their parameters and gradients, and the graphs left alive."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import optimizer as optim
from torch.optim import swa_utils

from . import fingerprints

if TYPE_CHECKING:
    from .journal import Journal

DEBUG_VARIABLES = (
    "CUDA_LAUNCH_BLOCKING",
    "TORCH_DISTRIBUTED_DEBUG",
    "NCCL_DEBUG",
    "NCCL_P2P_DISABLE",
    "NCCL_IB_DISABLE",
)


def watch(journal: Journal) -> None:
    """Write a line for each outermost forward, each backward and each optimizer step."""
    watcher = _Training(journal)
    register_module_forward_pre_hook(watcher.before_forward)
    register_module_forward_hook(watcher.after_forward, always_call=True)
    optim.register_optimizer_step_pre_hook(watcher.before_step)
    optim.register_optimizer_step_post_hook(watcher.after_step)
    backward = torch.autograd.backward

    def watched_backward(*args: object, **kwargs: object) -> None:
        watcher.before_backward()
        try:
            backward(*args, **kwargs)
        finally:
            watcher.after_backward()

    torch.autograd.backward = watched_backward


class _Training:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._depth = 0
        # Until the program chooses a seed, torch has one of its own from the operating system.
        self._first_seed = torch.initial_seed()
        self._models: list[weakref.ref[nn.Module]] = []
        self._in_backward = False
        self._stepped: list[weakref.ref[nn.Parameter]] | None = None
        self._before: dict[str, object] = {}
        self._kept: bool | None = None
        self._reduces = 0

    def before_forward(self, module: nn.Module, args: tuple[object, ...]) -> None:
        if torch.compiler.is_compiling() or self._in_backward:
            return
        self._depth += 1
        if self._depth > 1:
            return
        self._remember(module)
        self._before = {
            "parameters": fingerprints.of_tensors(self._parameters()),
            "inputs": fingerprints.of_rows(args),
            "nodes": live_nodes(),
            "unregistered": unregistered(module),
        }

    def after_forward(self, module: nn.Module, args: tuple[object, ...], output: object) -> None:
        if torch.compiler.is_compiling() or self._in_backward or not self._depth:
            return
        self._depth -= 1
        if self._depth or not any(True for _ in module.parameters()):
            return
        builds = any(t.requires_grad for t in fingerprints.tensors_in(output))
        self._journal.write(
            "forward", model=type(module).__name__, training=module.training, builds_graph=builds, **self._before
        )

    def before_backward(self) -> None:
        self._in_backward = True
        self._kept = None if self._stepped is None else any(_holds_gradient(ref()) for ref in self._stepped)
        self._stepped = None
        self._reduces = collectives()["all_reduce"]

    def after_backward(self) -> None:
        self._in_backward = False
        self._journal.write("backward", kept=self._kept, reduces=collectives()["all_reduce"] - self._reduces)

    def before_step(self, optimizer: optim.Optimizer, args: object, kwargs: object) -> None:
        gradients = [p.grad for p in _owned(optimizer) if p.grad is not None]
        norm = sum(float(g.to_local().norm() if hasattr(g, "to_local") else g.norm()) ** 2 for g in gradients) ** 0.5
        self._journal.write("gradients", count=len(gradients), norm=norm, content=fingerprints.of_tensors(gradients))

    def after_step(self, optimizer: optim.Optimizer, args: object, kwargs: object) -> None:
        self._stepped = [weakref.ref(p) for p in _owned(optimizer)]
        self._journal.write(
            "step",
            parameters=fingerprints.of_tensors(self._parameters()),
            whole=self._whole(),
            owned=fingerprints.of_tensors(_owned(optimizer)),
            buffers=self._buffers(),
            collectives=collectives(),
            generator=hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=8).hexdigest(),
            seeded=torch.initial_seed() != self._first_seed,
            debug=debug_switches(),
        )

    def _remember(self, module: nn.Module) -> None:
        """Keep in mind what is trained; a copy that is only evaluated, as on one rank, is none of it."""
        trained = torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters())
        if trained and not isinstance(module, swa_utils.AveragedModel) and module not in self._living():
            self._models.append(weakref.ref(module))

    def _living(self) -> list[nn.Module]:
        return [module for ref in self._models if (module := ref()) is not None]

    def _whole(self) -> str | None:
        parameters = [parameter for parameter in self._parameters() if not hasattr(parameter, "to_local")]
        return fingerprints.of_tensors(parameters) if parameters else None

    def _buffers(self) -> str | None:
        buffers = [buffer for module in self._living() for buffer in module.buffers()]
        return fingerprints.of_tensors(buffers) if buffers else None

    def _parameters(self) -> Iterator[nn.Parameter]:
        return iter({id(p): p for module in self._living() for p in module.parameters()}.values())


def _owned(optimizer: optim.Optimizer) -> list[nn.Parameter]:
    return [p for group in optimizer.param_groups for p in group["params"]]


def _holds_gradient(parameter: nn.Parameter | None) -> bool:
    if parameter is None or parameter.grad is None:
        return False
    gradient = parameter.grad
    return bool((gradient.to_local() if hasattr(gradient, "to_local") else gradient).detach().any())


def live_nodes() -> int:
    """How many autograd nodes the living tensors keep alive."""
    objects = gc.get_objects()
    # Far fewer types than objects, and to ask a type of torch what it derives from takes long.
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, torch.Tensor)}
    stack = [node for each in objects if type(each) in kinds and (node := _made_by(each)) is not None]
    del objects
    seen: dict[int, object] = {}
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            # The wrapper has to stay alive: its id names the node only as long as it does.
            seen[id(node)] = node
            stack += [parent for parent, _ in node.next_functions if parent is not None]
    return len(seen)


def unregistered(module: nn.Module) -> int:
    """Parameters of layers that lie in plain containers of `module`, where PyTorch does not look."""
    known = {id(p) for p in module.parameters()}
    hidden: set[int] = set()
    for part in module.modules():
        for name, value in vars(part).items():
            if not name.startswith("_"):
                hidden |= {id(p) for p in _contained(value)} - known
    return len(hidden)


def _contained(value: object) -> Iterator[nn.Parameter]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for item in items:
        if isinstance(item, nn.Module):
            yield from item.parameters()
        elif isinstance(item, nn.Parameter):
            yield item
        else:
            yield from _contained(item)


def collectives() -> Counter[str]:
    """How often this process has started each collective, the hidden ones of DDP among them."""
    if not dist.is_initialized():
        return Counter()
    entries = json.loads(torch._C._distributed_c10d._dump_fr_trace_json()).get("entries", [])
    return Counter(entry["profiling_name"].rpartition(":")[2] for entry in entries)


def debug_switches() -> list[str]:
    """What is switched on in this process that is meant for finding bugs, not for training."""
    variables = [name for name in DEBUG_VARIABLES if os.environ.get(name, "") not in ("", "0", "OFF", "WARN")]
    return [*variables, *(["detect_anomaly"] if torch.is_anomaly_enabled() else [])]


def _made_by(tensor: torch.Tensor) -> Any:
    try:
        return tensor.grad_fn if tensor.requires_grad else None
    # A view of parameters that FSDP has written anew.
    except RuntimeError:
        return None
