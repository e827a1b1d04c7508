"""Recurrent layers: the lengths of packed sequences stay on the host, and what oneDNN cannot compute torch does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from gpudoctor.virtual.device_errors import name_of
from gpudoctor.virtual.operands import Operands
from gpudoctor.virtual.residence import HOST, UNKNOWN, place_of, put
from gpudoctor.virtual.tensor_mode import TorchAnswer


def answers(operands: Operands) -> Iterator[tuple[Any, TorchAnswer]]:
    """What stands in for the functions that layers and `torch.nn.utils.rnn` call."""

    def packed(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        data, lengths, *rest = args
        if place_of(lengths) not in (HOST, UNKNOWN):
            kind = str(lengths.type()).rpartition(".")[2].removesuffix("Tensor")
            raise RuntimeError(
                "'lengths' argument should be a 1D CPU int64 tensor, but got"
                f" {lengths.dim()}D {name_of(place_of(lengths))} {kind} tensor"
            )
        found, sizes = operands.computed(func, (data, _anywhere(lengths), *rest), kwargs)
        return found, put(sizes, HOST)

    def padded(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        data, sizes, *rest = args
        found, lengths = operands.computed(func, (data, _anywhere(sizes), *rest), kwargs)
        return found, put(lengths, HOST)

    def recurrent(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        data, second, *rest = args
        if isinstance(rest[0], torch.Tensor) or isinstance(rest[1], (list, tuple)):
            # The second argument says how long packed sequences are.
            args = (data, _anywhere(second), *rest)
        half = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.float16
        if func is not torch._VF.lstm or (not half and data.dtype is not torch.float16):
            return operands.computed(func, args, kwargs)
        # oneDNN has no LSTM in half precision. Not by `torch.backends.mkldnn.flags`, which sets more, and warns.
        before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            return operands.computed(func, args, kwargs)
        finally:
            torch._C._set_mkldnn_enabled(before)

    yield torch._VF._pack_padded_sequence, packed
    yield torch._VF._pad_packed_sequence, padded
    for layer in (torch._VF.lstm, torch._VF.gru, torch._VF.rnn_tanh, torch._VF.rnn_relu):
        yield layer, recurrent


def _anywhere(lengths: torch.Tensor) -> torch.Tensor:
    """The same numbers, of which nobody says where they live."""
    return lengths.clone()
