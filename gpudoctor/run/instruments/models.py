"""What models look like at the first steps: layers that nobody holds, statistics of batches, searches of the graph."""

from __future__ import annotations

import dis
import gc
import os
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from gpudoctor.run.instruments.fingerprints import sums_of
from gpudoctor.run.instruments.state import State
from gpudoctor.run.places import is_own

_OF_MODULES = frozenset(vars(nn.Module()))
"""Attributes that every module has: among them the layers that are registered."""


def look(state: State) -> None:
    """After a step, at a few of the first ones."""
    if state.steps == 2:
        for owner, attribute, layers in _hidden(list(state.wrappers)):
            place = _assigned(type(owner), attribute)
            if place is not None:
                state.write("hidden", model=type(owner).__name__, attribute=attribute, layers=len(layers), place=place)
    if state.steps <= 2:
        _tell_norms(state)


def _hidden(wrappers: list[nn.Module]) -> Iterator[tuple[nn.Module, str, list[nn.Module]]]:
    """Containers of layers in models that are trained, while the layers belong to no module and no optimizer."""
    # To search all objects of a large program takes a tenth of a second, and a wrapper says where to look first.
    if wrappers and not any(_may_be_lost(layers) for each in wrappers for _, _, layers in _containers(each)):
        return
    objects = _instances(nn.Module, Optimizer)
    modules = [each for each in objects if issubclass(type(each), nn.Module)]
    optimizers = [each for each in objects if issubclass(type(each), Optimizer)]
    held = {id(one) for each in optimizers for group in each.param_groups for one in group["params"]}
    registered = {id(part) for each in modules for part in each.children()}
    for root in modules:
        # A loss that calls a network which nobody trains may hide its parts on purpose.
        if id(root) in registered or not any(id(one) in held for one in root.parameters()):
            continue
        for owner, attribute, layers in _containers(root):
            lost = [each for each in layers if id(each) not in registered and _learns_alone(each, held)]
            if lost:
                yield owner, attribute, lost


def _containers(root: nn.Module) -> Iterator[tuple[nn.Module, str, list[nn.Module]]]:
    """Lists and dicts of layers that no module of this model has registered; of one is how it is hidden on purpose."""
    known = {id(each) for each in root.modules()}
    for owner in root.modules():
        for attribute, value in list(vars(owner).items()):
            if attribute in _OF_MODULES or type(value) not in (list, tuple, dict):
                continue
            inside = list(value.values()) if isinstance(value, dict) else list(value)
            layers = [each for each in inside if issubclass(type(each), nn.Module)]
            if len(layers) > 1 and any(id(each) not in known for each in layers):
                yield owner, attribute, layers


def _may_be_lost(layers: list[nn.Module]) -> bool:
    return any(_learns_alone(each, set()) for each in layers)


def _instances(*kinds: type[Any]) -> list[Any]:
    """All objects of these classes and of those that inherit from them."""
    wanted = {id(each) for kind in kinds for each in _family(kind)}
    # By type: asking an object for its class may make a lazy one load. There are some 300,000 objects: to make
    # another one for each, or to ask each for its family, takes seconds.
    return [each for each in gc.get_objects() if id(type(each)) in wanted]


def _family(kind: type[Any]) -> Iterator[type[Any]]:
    yield kind
    for each in type.__subclasses__(kind):
        yield from _family(each)


def _learns_alone(layer: nn.Module, held: set[int]) -> bool:
    """Gradients were computed for its parameters, and no optimizer has any of them."""
    parameters = list(layer.parameters())
    return any(each.grad is not None for each in parameters) and not any(id(each) in held for each in parameters)


def _assigned(kind: type, attribute: str) -> tuple[str, int] | None:
    """Where the class assigns this attribute first, in code of the user's own."""
    for each in kind.__mro__:
        code = getattr(vars(each).get("__init__"), "__code__", None)
        if code is not None and is_own(code.co_filename):
            line = 0
            for instruction in dis.get_instructions(code):
                # What begins a line was its number before Python 3.13.
                line = getattr(instruction, "line_number", instruction.starts_line) or line
                if instruction.opname == "STORE_ATTR" and instruction.argval == attribute:
                    return os.path.abspath(code.co_filename), line
    return None


def _tell_norms(state: State) -> None:
    for wrapper in state.wrappers:
        norms = [(name, each) for name, each in wrapper.named_modules() if moves_alone(each)]
        if norms:
            name, norm = norms[0]
            [statistics] = sums_of([norm.running_mean])
            state.write(
                "norms",
                wrapper=id(wrapper),
                step=state.steps,
                name=name.removeprefix("module."),
                count=len(norms),
                statistics=statistics,
            )


def moves_alone(module: Any) -> bool:
    """It normalises by the batch of this rank, and keeps what it has seen in buffers."""
    mine = isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm)
    return mine and module.training and isinstance(module.running_mean, torch.Tensor)


def tell_searches(state: State) -> None:
    """What wrappers that look for unused parameters in each step have found in one of the last steps."""
    for wrapper in state.wrappers:
        # A static graph is searched once.
        searches = getattr(wrapper, "find_unused_parameters", False) and not getattr(wrapper, "static_graph", False)
        if searches and hasattr(wrapper, "_get_ddp_logging_data"):
            seen = wrapper._get_ddp_logging_data()
            if "unused_parameter_size" in seen and seen.get("iteration", 0) > 0:
                state.write(
                    "search", wrapper=id(wrapper), iteration=seen["iteration"], unused=seen["unused_parameter_size"]
                )
