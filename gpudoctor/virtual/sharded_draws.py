"""Tensors over a mesh: PyTorch draws their random numbers by the state of a GPU's generator, which is not the host's.

Here each shard has a stream of its own, seeded with a number that all ranks draw alike; copies of a shard have the
same. What a rank draws on the host is left as it was.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from gpudoctor.virtual.backward_pass import InMode

_SEEDS = 2**62


def install(in_mode: InMode) -> None:
    """Put it where PyTorch looks for its own; `torch.distributed.tensor` has been imported."""
    from torch.distributed.tensor import _api, _op_schema, _random

    class ShardedDraws(_random.OffsetBasedRNGTracker):  # type: ignore[misc]
        """Seeds the generator of the host for each drawing."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            own = torch.cuda.get_rng_state()
            # Torch 2.7 makes one in the midst of an operation, and moves its state to the GPU.
            with in_mode():
                super().__init__(*args, **kwargs)
            # That of the first rank, where PyTorch has made all alike.
            self._common = torch.Generator()
            # Torch 2.6 keeps it beside that of the GPU, which may be seeded without it.
            self._beside = hasattr(self, "rng_states")
            state = self.rng_states["parallel-rng"] if self._beside else torch.cuda.get_rng_state()
            self._common.set_state(state)
            torch.cuda.set_rng_state(own)
            self._seeded = torch.initial_seed()

        def _get_device_state(self) -> torch.Tensor:
            # Of nobody knows where: it goes through a collective.
            state: torch.Tensor = torch.default_generator.get_state()
            return state

        def _manual_seed(self, parallel_seed: int) -> None:
            super()._manual_seed(parallel_seed)
            self._common.manual_seed(parallel_seed)

        @contextlib.contextmanager
        def _distribute_region(self, spec: Any, generator: torch.Generator | None = None) -> Iterator[None]:
            if not self.distribute_region_enabled:
                yield
                return
            if not self._beside and self._seeded != torch.initial_seed():
                self._seeded = torch.initial_seed()
                self._common.manual_seed(self._seeded)
            seed = torch.randint(_SEEDS, (), generator=generator or self._common, device="cpu").item()
            own = torch.default_generator.get_state()
            torch.default_generator.manual_seed(int(seed) + _shard(spec))
            try:
                yield
            finally:
                torch.default_generator.set_state(own)

    # Under the names that PyTorch makes its own with; the second is that of torch 2.6.
    for module in (_random, _api):
        vars(module)["OffsetBasedRNGTracker"] = ShardedDraws

    def rebuilt(spec: Any) -> torch.Tensor:
        meta = spec.tensor_meta
        assert meta is not None
        return torch.empty_strided(meta.shape, meta.stride, dtype=meta.dtype, device="cpu")

    # Tensors without memory that stand for those of a GPU: some operations on them would ask for its driver.
    vars(_op_schema)["_rebuild_tensor_from_dtensor_meta"] = rebuilt


def _shard(spec: Any) -> int:
    """Which shard this rank has; the same number for copies of one."""
    at = 0
    for dim, (placement, coordinate) in enumerate(zip(spec.placements, spec.mesh.get_coordinate(), strict=True)):
        if placement.is_shard():
            at = at * spec.mesh.size(dim) + coordinate
    return at
