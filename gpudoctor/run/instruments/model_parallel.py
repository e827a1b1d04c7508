"""Models whose layers are cut up among the ranks of a mesh."""

from __future__ import annotations

import functools
import sys
from typing import Any

from gpudoctor.run.import_hooks import when_imported
from gpudoctor.run.instruments.state import State

_PACKAGE = "torch.distributed.tensor.parallel"


def watch(state: State) -> None:
    """Write a line for each mesh among whose ranks layers are cut up."""
    when_imported(_PACKAGE, state.recorder.guarded(functools.partial(_install, state)))


def _install(state: State) -> None:
    package: Any = sys.modules[_PACKAGE]
    told: set[tuple[int, ...]] = set()

    def note(module: Any, device_mesh: Any = None, *args: Any, **keywords: Any) -> None:
        # Without one it takes that of a block around it, which torch keeps to itself.
        ranks = tuple(device_mesh.mesh.flatten().tolist()) if device_mesh is not None else ()
        if len(ranks) > 1 and ranks not in told:
            told.add(ranks)
            state.write("layers cut up", ranks=ranks, place=state.recorder.place())

    package.parallelize_module = state.recorder.before(package.parallelize_module, note)
