"""Puts the stand-in for NCCL where PyTorch looks for the real one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from gpudoctor.virtual.nccl_backend import NcclConfig, VirtualNccl
from gpudoctor.virtual.nccl_refusals import NCCL_VERSION
from gpudoctor.virtual.ordinals import VirtualGpus

_TIMEOUT = timedelta(minutes=10)

_VERSION = tuple(map(int, torch.__version__.split(".")[:2]))


def install(gpus: VirtualGpus) -> None:
    """Let `nccl` be a backend that there is."""
    VirtualNccl.gpus = gpus
    # Under the name that isinstance, reprs and pickles of PyTorch know.
    VirtualNccl.__name__ = VirtualNccl.__qualname__ = "ProcessGroupNCCL"
    for module in (c10d, dist, torch._C._distributed_c10d):
        vars(module)["ProcessGroupNCCL"] = VirtualNccl
    vars(torch._C._distributed_c10d)["NCCLConfig"] = NcclConfig
    vars(c10d)["_NCCL_AVAILABLE"] = True
    for module in (c10d, sys.modules["torch.distributed.constants"]):
        vars(module)["default_pg_nccl_timeout"] = _TIMEOUT
    # Its functions are Python, and the mode has to be in place within them.
    vars(c10d)["has_torch_function"] = _of_other_classes
    _split_by_new_groups()
    if _VERSION >= (2, 14):
        # Options take nothing but a backend in C++ to split from there; a group of its own does as well.
        vars(c10d)["_get_split_source"] = lambda pg: None
    _meet_anew()
    nccl = sys.modules["torch.cuda.nccl"]
    vars(nccl).update(version=lambda: NCCL_VERSION, is_available=lambda tensors: False)
    for name in ("_verify_params_across_processes", "_broadcast_coalesced"):
        _admit_before(name)


def _of_other_classes(arguments: Sequence[Any]) -> bool:
    """Whether a subclass of tensors answers for itself; the mode of virtual GPUs does not count."""
    return any(
        isinstance(each, torch.Tensor)
        and type(each) is not torch.Tensor
        and type(each).__torch_function__ is not torch._C._disabled_torch_function_impl
        for each in arguments
    )


def _admit_before(name: str) -> None:
    """A function in C++ that hands on copies of tensors, of which nobody knows where they live: look at them before."""
    call: Callable[..., Any] = getattr(torch._C._distributed_c10d, name)

    def admitted(group: Any, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(group, VirtualNccl):
            group.admit(tensors)
        return call(group, tensors, *args, **kwargs)

    for module in (c10d, dist, sys.modules["torch.distributed.utils"]):
        if name in vars(module):
            vars(module)[name] = admitted


def _meet_anew() -> None:
    """Give the groups of all ranks that are made again keys of their own.

    A launcher keeps the store in which ranks meet; gloo may read there at which address its peer was before.
    """
    meet, worlds = c10d.rendezvous, count()

    def rendezvous(*args: Any, **kwargs: Any) -> Iterator[tuple[dist.Store, int, int]]:
        for store, rank, size in meet(*args, **kwargs):
            yield dist.PrefixStore(f"world {next(worlds)}", store), rank, size

    vars(c10d)["rendezvous"] = rendezvous


def _split_by_new_groups() -> None:
    """Communicators that are split off are groups of their own here."""
    if not hasattr(c10d, "split_group"):
        return

    def split_group(
        parent_pg: Any = None,
        split_ranks: Any = None,
        timeout: timedelta | None = None,
        pg_options: Any = None,
        group_desc: str | None = None,
        **_: Any,
    ) -> Any:
        if split_ranks is None or len(split_ranks) == 0:
            raise ValueError("split_ranks cannot be None or empty")
        parent = parent_pg or c10d._get_default_group()
        of_parent = c10d.get_process_group_ranks(parent)
        mine = None
        for ranks in split_ranks:
            members = [of_parent[rank] for rank in ranks]
            group = c10d.new_group(
                members,
                timeout=timeout,
                backend="nccl",
                group_desc=group_desc,
                use_local_synchronization=parent_pg is not None,
            )
            # Of a group of others it is told nothing, or that it is no member.
            if c10d.get_rank() in members:
                mine = group
        return mine

    # Meshes have taken its name already.
    before = c10d.split_group
    for name, module in list(sys.modules.items()):
        if name.startswith("torch.distributed") and vars(module).get("split_group") is before:
            vars(module)["split_group"] = split_group
