"""What NCCL computes and gloo does not, made of what gloo does: means, flat tensors, lists of all to all, truth values.

Tensors here are those of the CPU that they really are; nothing is asked about where they live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (  # type: ignore[attr-defined]
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ScatterOptions,
    _create_work_from_future,
)

if TYPE_CHECKING:
    from datetime import timedelta

Pieces = Sequence[torch.Tensor]


class GlooExchanges:
    """Collectives of one group by its gloo. All return at once; who waits for the `Work` has the result."""

    def __init__(self, gloo: Any, rank: int, size: int) -> None:
        self._gloo = gloo
        self._rank = rank
        self._size = size

    def all_reduce(self, tensors: Pieces, operation: dist.ReduceOp, timeout: timedelta) -> dist.Work:
        """Reduce each of the tensors, in place."""
        options = AllreduceOptions()
        options.timeout = timeout
        inner, divides = _summed(operation)
        works = []
        for tensor in tensors:
            options.reduceOp = _for_truth(inner) if tensor.dtype is torch.bool else inner
            works.append(self._gloo.allreduce([_numbers(tensor)], options))
        if len(works) == 1 and not divides:
            return works[0]
        return _then(works, lambda: self._divide(tensors) if divides else None)

    def reduce(self, tensor: torch.Tensor, root: int, operation: dist.ReduceOp, timeout: timedelta) -> dist.Work:
        """Reduce to the root. NCCL leaves the tensors of the others alone, which gloo takes for its sums."""
        options = ReduceOptions()
        inner, divides = _summed(operation)
        options.reduceOp = _for_truth(inner) if tensor.dtype is torch.bool else inner
        options.rootRank = root
        options.timeout = timeout
        mine = root == self._rank
        work = self._gloo.reduce([_numbers(tensor if mine else tensor.clone())], options)
        return _then([work], lambda: self._divide([tensor])) if divides and mine else work

    def broadcast(self, tensor: torch.Tensor, root: int, timeout: timedelta) -> dist.Work:
        """Give all ranks the tensor of the root."""
        options = BroadcastOptions()
        options.rootRank = root
        options.timeout = timeout
        return self._gloo.broadcast([_numbers(tensor)], options)

    def all_gather(self, parts: Pieces, mine: torch.Tensor, timeout: timedelta) -> dist.Work:
        """Gather one tensor of each rank, of whatever size each is."""
        if any(part.numel() != mine.numel() for part in parts):
            parts[self._rank].copy_(mine)
            return _then([self.broadcast(part, rank, timeout) for rank, part in enumerate(parts)])
        options = AllgatherOptions()
        options.timeout = timeout
        return self._gloo.allgather([[_flat(part) for part in parts]], [_flat(mine)], options)

    def gather(self, parts: Pieces, mine: torch.Tensor, root: int, timeout: timedelta) -> dist.Work:
        """Gather one tensor of each rank on the root; there are no `parts` elsewhere."""
        options = GatherOptions()
        options.rootRank = root
        options.timeout = timeout
        return self._gloo.gather([[_numbers(part) for part in parts]] if parts else [], [_numbers(mine)], options)

    def scatter(self, mine: torch.Tensor, parts: Pieces, root: int, timeout: timedelta) -> dist.Work:
        """Give each rank one tensor of the root."""
        options = ScatterOptions()
        options.rootRank = root
        options.timeout = timeout
        return self._gloo.scatter([_numbers(mine)], [[_numbers(part) for part in parts]] if parts else [], options)

    def reduce_scatter(
        self, mine: torch.Tensor, flat: torch.Tensor, begin: int, operation: dist.ReduceOp, timeout: timedelta
    ) -> dist.Work:
        """Reduce a tensor, and keep the part of this rank, which begins there. `flat` is overwritten."""
        work = self.all_reduce([flat], operation, timeout)
        part = flat[begin : begin + mine.numel()]
        return _then([work], lambda: mine.copy_(part.view(mine.shape)))

    def all_to_all(self, received: Pieces, sent: Pieces, timeout: timedelta) -> dist.Work:
        """Give each rank one tensor, and get one of each."""
        options = AllToAllOptions()
        options.timeout = timeout
        flat = torch.empty(sum(each.numel() for each in received), dtype=received[0].dtype)
        work = self._gloo.alltoall_base(
            _numbers(flat),
            _numbers(joined(sent)),
            [each.numel() for each in received],
            [each.numel() for each in sent],
            options,
        )
        return _then([work], lambda: _part(flat, received))

    def _divide(self, tensors: Pieces) -> None:
        for tensor in tensors:
            if tensor.is_floating_point() or tensor.is_complex():
                tensor.div_(self._size)
            else:
                tensor.copy_(torch.div(tensor, self._size, rounding_mode="trunc"))


def joined(tensors: Pieces) -> torch.Tensor:
    """A new flat tensor with the numbers of all."""
    return torch.cat([each.reshape(-1) for each in tensors])


def together(works: Sequence[dist.Work]) -> dist.Work:
    """All of them as one."""
    return works[0] if len(works) == 1 else _WorkOfSeveral(works)


class _WorkOfSeveral(dist.Work):  # type: ignore[misc]
    """What is done when all are; those between two ranks have no future before torch 2.7."""

    def __init__(self, works: Sequence[dist.Work]) -> None:
        super().__init__()
        self._works = works

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def wait(self, *timeout: Any) -> bool:
        return all(work.wait(*timeout) for work in self._works)

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future[Any]:
        future: torch.futures.Future[Any] = _then(self._works).get_future()
        return future


def done(result: Any = None) -> dist.Work:
    """What has nothing to wait for."""
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(result)
    return _create_work_from_future(future)


def _part(flat: torch.Tensor, tensors: Pieces) -> None:
    at = 0
    for each in tensors:
        each.copy_(flat[at : at + each.numel()].view(each.shape))
        at += each.numel()


def _then(works: Iterable[dist.Work], finish: Callable[[], object] = lambda: None) -> dist.Work:
    """Work that is done when these are, and `finish` after them."""
    futures = [work.get_future() for work in works]

    def finished(all_of_them: torch.futures.Future[Any]) -> None:
        for each in all_of_them.value():
            # Raises what has gone wrong.
            each.value()
        with torch.no_grad():
            finish()

    return _create_work_from_future(torch.futures.collect_all(futures).then(finished))


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as numbers that gloo knows."""
    return tensor.view(torch.uint8) if tensor.dtype is torch.bool or tensor.itemsize == 1 else tensor


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return _numbers(tensor).view(-1) if tensor.is_contiguous() else _numbers(tensor)


def _summed(operation: dist.ReduceOp) -> tuple[Any, bool]:
    """What gloo does for it, and whether its result is to be divided by the number of ranks."""
    return (dist.ReduceOp.SUM, True) if operation == dist.ReduceOp.AVG else (operation, False)


def _for_truth(operation: Any) -> Any:
    """As NCCL reduces truth values: a sum is true where one is."""
    return dist.ReduceOp.MAX if operation == dist.ReduceOp.SUM else operation
