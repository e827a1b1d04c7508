"""SyncBatchNorm: PyTorch has its kernels for GPUs alone. Here are the same sums, in operations of the CPU.

The layer itself, its exchanges and its gradient are PyTorch's own, and so are its errors.
"""

from __future__ import annotations

import torch
from torch import Tensor


def install() -> None:
    """Put the kernels where the layer looks for them."""
    for kernel in (
        batch_norm_stats,
        batch_norm_gather_stats_with_counts,
        batch_norm_elemt,
        batch_norm_backward_reduce,
        batch_norm_backward_elemt,
    ):
        setattr(torch, kernel.__name__, kernel)


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation of each channel: two tensors of shape (channels,)."""
    values = _exact(input)
    variance, mean = torch.var_mean(values, _but_channels(input), correction=0)
    return mean, torch.rsqrt(variance + eps)


def batch_norm_gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Mean and inverse deviation over all ranks, from those of each: tensors of shape (ranks, channels)."""
    share = counts.double().view(-1, 1)
    total = share.sum()
    means = mean.double()
    whole = (means * share).sum(0) / total
    variance = ((invstd.double() ** -2 - eps + (means - whole) ** 2) * share).sum(0) / total
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(whole.to(running_mean.dtype), alpha=momentum)
    if running_var is not None:
        running_var.mul_(1 - momentum).add_((variance * total / (total - 1)).to(running_var.dtype), alpha=momentum)
    return whole.to(mean.dtype), torch.rsqrt(variance + eps).to(mean.dtype)


def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """The normalized input."""
    found = (_exact(input) - _wide(mean, input)) * _wide(invstd, input)
    if weight is not None:
        found = found * _wide(weight, input)
    if bias is not None:
        found = found + _wide(bias, input)
    return found.to(input.dtype)


def batch_norm_backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """Sums over this rank: of the gradient, of it times what the mean leaves, and the gradients of weight and bias."""
    others = _but_channels(input)
    sum_dy = _exact(grad_out).sum(others)
    sum_dy_xmu = (_exact(grad_out) * (_exact(input) - _wide(mean, input))).sum(others)
    kind = input.dtype if weight is None else weight.dtype
    return (
        sum_dy,
        sum_dy_xmu,
        (sum_dy_xmu * invstd).to(kind) if weight_g else None,
        sum_dy.to(kind) if bias_g else None,
    )


def batch_norm_backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """The gradient of the input, from the sums over all ranks."""
    total = count.sum()
    left = (_exact(input) - _wide(mean, input)) * _wide(invstd**2 * sum_dy_xmu / total, input)
    found = (_exact(grad_out) - _wide(sum_dy / total, input) - left) * _wide(invstd, input)
    if weight is not None:
        found = found * _wide(weight, input)
    return found.to(input.dtype)


def _exact(tensor: Tensor) -> Tensor:
    """GPUs sum numbers of half precision in single precision."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _but_channels(tensor: Tensor) -> list[int]:
    return [dim for dim in range(tensor.dim()) if dim != 1]


def _wide(of_channels: Tensor, like: Tensor) -> Tensor:
    return of_channels.view(1, -1, *[1] * (like.dim() - 2))
