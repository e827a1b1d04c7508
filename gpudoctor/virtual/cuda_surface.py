"""`torch.cuda` and `torch.accelerator`, as a program asks them. What cannot be known of a virtual GPU is a constant."""

from __future__ import annotations

import contextlib
import socket
import sys
import types
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.cuda import nccl

from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.random_streams import DeviceRandom, VirtualGenerator
from gpudoctor.virtual.residence import UNKNOWN, place_of
from gpudoctor.virtual.streams import Streams

CUDA = "12.8"
_NCCL = (2, 27, 5)
_CAPABILITY = (8, 0)
_MEMORY = 80 << 30
_NAME = "gpudoctor virtual GPU"
_NOTHING = """synchronize empty_cache init _lazy_init ipc_collect reset_peak_memory_stats reset_max_memory_allocated
 reset_max_memory_cached reset_accumulated_memory_stats set_per_process_memory_fraction set_sync_debug_mode
 empty_host_cache reset_peak_host_memory_stats reset_accumulated_host_memory_stats _lazy_call"""
_SEGMENT = 2 << 20
"""What CUDA's allocator holds as soon as there is a tensor: the least that may stand below a fraction."""
_HELD = "memory_reserved memory_cached max_memory_allocated max_memory_reserved max_memory_cached"
_ZERO = """memory_allocated utilization memory_usage get_sync_debug_mode device_memory_used temperature power_draw
 clock_rate"""
_COUNTED = """allocation segment active inactive_split allocated_bytes reserved_bytes active_bytes inactive_split_bytes
 requested_bytes"""
_COUNTED_ONCE = """num_alloc_retries num_ooms num_sync_all_streams num_device_alloc num_device_free max_split_size
 oversize_allocations.current oversize_segments.current"""


@dataclass(frozen=True)
class VirtualProperties:
    """What `get_device_properties` says: constants, of a card as many have it."""

    name: str = _NAME
    major: int = _CAPABILITY[0]
    minor: int = _CAPABILITY[1]
    total_memory: int = _MEMORY
    multi_processor_count: int = 108
    is_integrated: bool = False
    is_multi_gpu_board: bool = False
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    warp_size: int = 32
    L2_cache_size: int = 40 << 20
    gcnArchName: str = _NAME  # noqa: N815
    uuid: str = "00000000-0000-0000-0000-000000000000"
    pci_domain_id: int = 0
    pci_bus_id: int = 1
    pci_device_id: int = 0
    clock_rate: int = 1410000
    memory_clock_rate: int = 1512000
    memory_bus_width: int = 5120
    shared_memory_per_block_optin: int = 166912
    shared_memory_per_multiprocessor: int = 167936


class CudaSurface:
    """Puts the functions of `torch.cuda` and `torch.accelerator` in place."""

    def __init__(self, gpus: VirtualGpus, streams: Streams, random: DeviceRandom) -> None:
        self._gpus = gpus
        self._streams = streams
        self._random = random

    def install(self) -> None:
        """Replace them wherever modules of torch have them."""
        _replace("torch.cuda", {**self._cuda(), **self._random.functions()})
        _replace("torch.accelerator", self._accelerator())
        torch.cuda._initialized = True
        torch.cuda._is_in_bad_fork = lambda: self._gpus.forked
        torch.version.cuda = CUDA
        torch.backends.cuda.is_built = lambda: True
        nccl.version = lambda: _NCCL
        torch.Generator = VirtualGenerator
        self._random.install()
        torch.Stream, torch.Event = self._streams.of_any_device()
        # As a build without CUDA says it, also where this one has it and the machine no driver.
        torch.cuda.CUDAGraph.__new__ = _no_graph
        torch.backends.cudnn.is_available = lambda: True
        for name in ("preferred_linalg_library", "preferred_blas_library"):
            if hasattr(torch.backends.cuda, name):
                setattr(torch.backends.cuda, name, _preferred(getattr(torch.backends.cuda, name)))
        # Layers of old ask before they lay their weights out for it.
        torch.backends.cudnn.is_acceptable = lambda tensor: False
        vars(torch.cuda.memory).update(
            _record_memory_history=_returning(None), _dump_snapshot=_returning(None), _snapshot=_returning({})
        )
        vars(torch.cuda.nvtx)["_nvtx"] = _Ranges()
        accelerator = torch.device("cuda")
        torch._C._get_accelerator = lambda check=None: accelerator

    def _cuda(self) -> dict[str, Any]:
        gpus, streams = self._gpus, self._streams
        device, device_of = _device_contexts(gpus)
        context = streams.context_type()
        return {
            **{name: _returning(None) for name in _NOTHING.split()},
            **{name: _returning(0) for name in _ZERO.split()},
            **{name: _returning(_SEGMENT) for name in _HELD.split()},
            "is_available": lambda: gpus.count > 0,
            "is_initialized": lambda: gpus.begun,
            "device_count": lambda: gpus.count,
            "current_device": lambda: gpus.current,
            "set_device": lambda device: _select(gpus, device),
            "device": device,
            "device_of": device_of,
            "Stream": streams.stream_type,
            "ExternalStream": streams.external,
            "Event": streams.event_type,
            "current_stream": streams.current,
            "default_stream": streams.default,
            "set_stream": streams.make_current,
            "stream": lambda stream: context(stream),
            "StreamContext": context,
            "get_device_name": lambda device=None: self._properties(device).name,
            "get_device_capability": lambda device=None: (
                self._properties(device).major,
                self._properties(device).minor,
            ),
            "get_device_properties": self._properties,
            "get_arch_list": lambda: [f"sm_{_CAPABILITY[0]}{_CAPABILITY[1]}"],
            "is_bf16_supported": lambda including_emulation=True: True,
            "is_tf32_supported": lambda: True,
            "can_device_access_peer": lambda device, peer_device: True,
            "mem_get_info": lambda device=None: (_MEMORY, _MEMORY),
            "memory_stats": lambda device=None: _no_memory(),
            "memory_stats_as_nested_dict": lambda device=None: {},
            "cudart": _Runtime,
            "_cudart": _Runtime(),
            "get_allocator_backend": lambda: "native",
            "get_per_process_memory_fraction": lambda device=None: 1.0,
            "host_memory_stats": dict,
            "memory_snapshot": lambda *_: [],
            "memory_summary": lambda device=None, abbreviated=False: "memory of a virtual GPU is not counted",
            "list_gpu_processes": lambda device=None: "",
            "is_current_stream_capturing": lambda: False,
        }

    def _accelerator(self) -> dict[str, Any]:
        gpus, streams = self._gpus, self._streams
        device = torch.device("cuda")
        return {
            "is_available": lambda: gpus.count > 0,
            "device_count": lambda: gpus.count,
            "current_accelerator": lambda check_available=False: device,
            "current_device_index": lambda: gpus.current,
            "current_device_idx": lambda: gpus.current,
            "set_device_index": lambda device: _select(gpus, device),
            "set_device_idx": lambda device: _select(gpus, device),
            # The compiler refuses a function that stands under two names, those of `torch.cuda` being the others.
            "current_stream": lambda device=None: streams.current(device),
            "set_stream": lambda stream: streams.make_current(stream),
            "synchronize": lambda device=None: None,
            "device_index": _device_contexts(gpus)[0],
            "get_device_capability": lambda device=None: {},
            "get_memory_info": lambda device=None: (_MEMORY, _MEMORY),
            "memory_stats": lambda device=None: _no_memory(),
            **{name: _returning(None) for name in _NOTHING.split()},
            **{name: _returning(0) for name in _ZERO.split()},
            **{name: _returning(_SEGMENT) for name in _HELD.split()},
        }

    def _properties(self, device: Any = None) -> VirtualProperties:
        self._gpus.begin()
        if self._gpus.numbered(device) >= self._gpus.count:
            # Torch looks itself, before it asks CUDA.
            raise AssertionError("Invalid device id")
        physical = self._gpus.physical(self._gpus.index_of(device))
        # Who compares them sees as many GPUs as there are, also on two nodes.
        unique = uuid.uuid5(uuid.NAMESPACE_OID, f"{self._gpus.node or socket.gethostname()}/{physical}")
        return VirtualProperties(uuid=str(unique), pci_bus_id=physical + 1, pci_device_id=physical)


def _preferred(ask: Callable[..., Any]) -> Callable[..., Any]:
    # Which library computes is all the same here.
    return lambda backend=None: ask()


class _Runtime:
    """The runtime library of CUDA: whatever of it is called succeeds."""

    cudaError = types.SimpleNamespace(success=0)  # noqa: N815

    def __getattr__(self, name: str) -> Callable[..., int]:
        if not name.startswith("cuda"):
            raise AttributeError(name)
        return _returning(0)


def _no_graph(*_: Any, **__: Any) -> Any:
    raise RuntimeError("Tried to instantiate dummy base class _CUDAGraph")


class _Ranges:
    """Marks on a timeline that nobody draws."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return _returning(0)


def _no_memory() -> dict[str, int]:
    """What the allocator counts, of a GPU whose memory nobody counts."""
    names = [
        f"{what}.{pool}.{when}"
        for what in _COUNTED.split()
        for pool in ("all", "small_pool", "large_pool")
        for when in ("current", "peak", "allocated", "freed")
    ]
    held = {f"{what}_bytes.all.peak": _SEGMENT for what in ("allocated", "reserved", "active", "requested")}
    return {**dict.fromkeys([*names, *_COUNTED_ONCE.split()], 0), **held, "reserved_bytes.all.current": _SEGMENT}


def _select(gpus: VirtualGpus, device: Any) -> None:
    gpus.select(gpus.index_of(device))


def _device_contexts(gpus: VirtualGpus) -> tuple[type[Any], type[Any]]:
    """`torch.cuda.device` and `torch.cuda.device_of`."""

    class DeviceContext(contextlib.ContextDecorator):
        """Another current device for a while; None and the host change nothing."""

        def __init__(self, device: Any) -> None:
            # Entering it begins to use GPUs, making it does not.
            self.idx = gpus.numbered(device)
            self.prev_idx = -1

        def __enter__(self) -> None:
            self.prev_idx = gpus.select(self.idx) if self.idx >= 0 else -1

        def __exit__(self, *_: object) -> None:
            if self.prev_idx >= 0:
                gpus.select(self.prev_idx)

    class DeviceOfTensor(DeviceContext):
        """The device of a tensor, for a while."""

        def __init__(self, obj: Any) -> None:
            place = place_of(obj) if isinstance(obj, torch.Tensor) else UNKNOWN
            super().__init__(None if place is UNKNOWN or place < 0 else place)

    return DeviceContext, DeviceOfTensor


def _returning(value: Any) -> Callable[..., Any]:
    # One function for each name: a compiler refuses one that stands under two.
    return lambda *_, **__: value


def _replace(package: str, functions: dict[str, Any]) -> None:
    """Put functions in the place of those of a package's modules that have the same name."""
    modules = [module for name, module in list(sys.modules.items()) if f"{name}.".startswith(f"{package}.")]
    for name, function in functions.items():
        if not hasattr(sys.modules[package], name):
            continue
        before = getattr(sys.modules[package], name)
        for module in modules:
            if vars(module).get(name) is before:
                setattr(module, name, function)
