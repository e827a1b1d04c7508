"""What the mistakes cost that rules of severity `perf` name: the same training with and without each, timed."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from tests.on_gpu.part import Here, Step, Tell, seconds_of

ASKS = "what GPU801, GPU318, GPU803, GPU804 and GPU805 cost, with and without"
SECONDS = 75.0
GPUS = 1
_ROUNDS = 5


def _model(here: Here, width: int) -> tuple[Any, Any, Any]:
    import torch
    from torch import nn

    layers = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*layers).to(here.device)
    return model, torch.optim.Adam(model.parameters()), torch.randn(256, width, device=here.device)


def _alternate(here: Here, one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float]:
    """Seconds of each, in turns, so that what else happens on the machine meets both."""
    both = [(seconds_of(one, here, 1), seconds_of(other, here, 1)) for _ in range(_ROUNDS)]
    return statistics.median(each for each, _ in both), statistics.median(each for _, each in both)


def _waits(tell: Tell, here: Here) -> None:
    """GPU801: a number asked for in each step."""
    model, optimizer, inputs = _model(here, 64 if here.rehearsal else 512)
    steps = 3 if here.rehearsal else 200

    def train(every: int) -> None:
        for number in range(steps):
            optimizer.zero_grad()
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            if number % every == 0:
                loss.item()

    often, rarely = _alternate(here, lambda: train(1), lambda: train(50))
    tell(
        "GPU801", with_it=often / steps, without=rarely / steps, what="seconds a step, loss.item() in each or each 50th"
    )


def _half(tell: Tell, here: Here) -> None:
    """GPU803: no lower precision."""
    import torch

    model, optimizer, _ = _model(here, 64 if here.rehearsal else 4096)
    inputs = torch.randn(64 if here.rehearsal else 4096, model[0].in_features, device=here.device)

    def step(enabled: bool) -> None:
        optimizer.zero_grad()
        with torch.autocast(here.device, dtype=torch.bfloat16, enabled=enabled):
            loss = model(inputs).float().square().mean()
        loss.backward()
        optimizer.step()

    full, half = _alternate(here, lambda: step(False), lambda: step(True))
    tell("GPU803", with_it=full, without=half, what="seconds a step, float32 or bfloat16")


def _clocks(tell: Tell, here: Here) -> None:
    """GPU804: a clock that is read while the GPU still works."""
    import torch

    model, _, inputs = _model(here, 64 if here.rehearsal else 4096)
    inputs = inputs.repeat(1 if here.rehearsal else 16, 1)
    true = seconds_of(lambda: model(inputs), here)
    read = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        model(inputs)
        read.append(time.perf_counter() - began)
        if not here.rehearsal:
            torch.cuda.synchronize()
    tell(
        "GPU804",
        with_it=statistics.median(read),
        without=true,
        what="seconds of a forward as the clock says, and really",
    )


def _graphs(tell: Tell, here: Here) -> None:
    """GPU805: an evaluation that keeps what a backward would need."""
    import torch

    model, _, inputs = _model(here, 64 if here.rehearsal else 2048)

    def peak(enabled: bool) -> int:
        if here.rehearsal:
            return 0
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with torch.set_grad_enabled(enabled):
            model(inputs.repeat(16, 1))
        return torch.cuda.max_memory_allocated() - before

    tell("GPU805", with_it=peak(True), without=peak(False), what="bytes at most during an evaluation")


class _Costly:
    """A data set of which each item takes a millisecond of the processor."""

    def __len__(self) -> int:
        return 512

    def __getitem__(self, index: int) -> Any:
        import torch

        until = time.perf_counter() + 0.001
        while time.perf_counter() < until:
            pass
        return torch.full((512,), float(index))


def _loaders(tell: Tell, here: Here) -> None:
    """GPU318: batches that the training process makes itself."""
    from torch.utils.data import DataLoader, Subset

    model, optimizer, _ = _model(here, 512)
    data: Any = Subset(_Costly(), range(64)) if here.rehearsal else _Costly()  # type: ignore[type-var, arg-type]

    def epoch(workers: int) -> Callable[[], None]:
        loader = DataLoader(data, batch_size=32, num_workers=workers, persistent_workers=bool(workers))

        def train() -> None:
            for batch in loader:
                optimizer.zero_grad()
                model(batch.to(here.device)).square().mean().backward()
                optimizer.step()

        return train

    alone, helped = epoch(0), epoch(2 if here.rehearsal else 4)
    tell(
        "GPU318",
        with_it=seconds_of(alone, here, 1),
        without=seconds_of(helped, here, 1),
        what="seconds of an epoch, no workers or four",
    )


def _pinned(tell: Tell, here: Here) -> None:
    """GPU318: for how long the host is kept by a copy from memory that is pinned, and from such that is not."""
    import torch

    if here.rehearsal:
        return
    batch = torch.randn(64 << 20)
    pinned = batch.pin_memory()

    def host(of: Any) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        of.to("cuda", non_blocking=True)
        return time.perf_counter() - began

    both = [(host(batch), host(pinned)) for _ in range(_ROUNDS + 1)][1:]
    tell(
        "pinned",
        with_it=statistics.median(each for each, _ in both),
        without=statistics.median(each for _, each in both),
        what="seconds that `.to(non_blocking=True)` of 256 MiB keeps its host, pageable or pinned",
    )


STEPS = (
    Step("GPU801", 8.0, _waits),
    Step("GPU803", 8.0, _half),
    Step("GPU804", 4.0, _clocks),
    Step("GPU805", 4.0, _graphs),
    Step("GPU318", 12.0, _loaders),
    Step("pinned memory", 4.0, _pinned),
)
