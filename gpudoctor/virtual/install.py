"""Make the GPUs of this process virtual: all parts are put in place, in order."""

from __future__ import annotations

import contextlib
from typing import Any

from torch.overrides import _get_current_function_mode_stack

from gpudoctor.virtual import (
    autocast,
    backward_pass,
    batchnorm_kernels,
    compiled_regions,
    default_device,
    host_tensors,
    legacy_types,
    nested_tensors,
    optimizer_steps,
    process_groups,
    profilers,
    recurrent_layers,
    replica_copies,
    scripted_modules,
    serialization,
    shared_tensors,
    storages,
    tensor_lists,
    tensor_wrappers,
    threads,
    traced_programs,
    version_counters,
)
from gpudoctor.virtual.answers import TensorAnswers
from gpudoctor.virtual.backward_pass import InMode
from gpudoctor.virtual.cuda_surface import CudaSurface
from gpudoctor.virtual.operands import Operands
from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.random_streams import DeviceRandom
from gpudoctor.virtual.streams import Streams, accept_streams
from gpudoctor.virtual.tensor_mode import TorchAnswer, VirtualMode
from gpudoctor.virtual.transfers import Transfers


def make_gpus_virtual(count: int, node: str = "") -> InMode:
    """Give this process a machine with so many virtual GPUs; the mode stays in place until the process ends.

    `node` names the machine where there are several virtual ones. Returns what puts the mode in place for a while, in
    code that C++ calls.
    """
    gpus = VirtualGpus(count, node)
    random = DeviceRandom(gpus)
    operands = Operands(gpus, random)
    answers: dict[Any, TorchAnswer] = {}

    def in_mode() -> contextlib.AbstractContextManager[Any]:
        if traced_programs.is_traced() or any(
            isinstance(each, VirtualMode) for each in _get_current_function_mode_stack()
        ):
            return contextlib.nullcontext()
        return VirtualMode(operands, answers)

    answers.update(TensorAnswers(gpus, in_mode).table())
    answers.update(Transfers(gpus, operands).table())
    answers.update(recurrent_layers.answers(operands))
    CudaSurface(gpus, Streams(gpus), random).install()
    accept_streams()
    legacy_types.install(lambda: gpus.current)
    default_device.install(operands)
    traced_programs.install()
    host_tensors.install()
    nested_tensors.install(operands)
    autocast.install()
    serialization.install(gpus)
    shared_tensors.install(gpus)
    storages.install(gpus)
    tensor_wrappers.install(gpus)
    tensor_lists.install()
    backward_pass.install(in_mode)
    optimizer_steps.install()
    version_counters.install()
    compiled_regions.install()
    profilers.install()
    scripted_modules.install()
    process_groups.install(gpus)
    replica_copies.install(gpus)
    batchnorm_kernels.install()
    threads.install(in_mode)
    in_mode().__enter__()
    return in_mode
