"""How much longer a training takes while `gpudoctor run` watches it.

    python tests/benchmarks/watching.py [--pairs 8] [--rounds 15] [--workloads linear cifar10 transformer] [--null]

Two ranks (on GPUs as many as there are) train a workload of `probe` by DDP, from a `DataLoader`, as two jobs: one is
watched, the other is not. Both are there all the time, and take turns with stretches of steps, while the other one
sleeps. A round is A B B A, so that a machine that gets slower or faster favours neither; its ratio is formed of the
time on the clock, and of the processor time of rank 0, which other work on the machine disturbs less.

How fast a process is depends on where its memory happens to lie, and stays so for as long as it lives: more rounds of
one pair of jobs make an interval narrow that says nothing of the next pair. So each pair has one figure, the median of
its rounds, and what is said is the median of the pairs, with the interval in which it lies with 95 %, whatever their
distribution is: where that is wider than the difference that is asked for, the answer is not known, and more pairs are
needed. `--null` watches neither job, and shows what is found where there is nothing to find. No test asserts a time.

`--bytecodes` counts instead what Python executes in a step of one rank, once the first steps are over: that is no time,
but nothing else on the machine changes it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from types import FrameType

ROOT = Path(__file__).resolve().parent.parent.parent
STEPS = {"linear": (300, 3000), "cifar10": (8, 300), "transformer": (60, 100)}
"""Of a stretch, on CPUs and on GPUs."""
_BEFORE, _COUNTED = 300, 220
"""Steps. After the first 256 each eleventh is looked at."""
SAMPLES = {"linear": (64, 64), "cifar10": (32, 256), "transformer": (2, 8)}


class Took(NamedTuple):
    """Seconds of one stretch."""

    clock: float
    processor: float

    def __add__(self, other: object) -> Took:
        if not isinstance(other, Took):
            return NotImplemented
        return Took(self.clock + other.clock, self.processor + other.processor)


class Job:
    """Ranks that make a stretch of steps whenever they are told to."""

    def __init__(self, folder: Path, workload: str, watched: bool) -> None:
        folder.mkdir()
        self.report = folder / "report.json"
        asked, told = folder / "asked", folder / "told"
        for pipe in (asked, told):
            os.mkfifo(pipe)
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={_ranks()}"]
        command = [*launcher, __file__, "--pipes", str(asked), str(told), "--workloads", workload]
        if watched:
            ours = ["--no-lint", "--output-format", "json", "--output-file", str(self.report), "--"]
            command = [sys.executable, "-m", "gpudoctor", "run", *ours, *command]
        self._process = subprocess.Popen(command, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"})
        # Opening waits for the other end.
        self._ask, self._told = asked.open("w"), told.open()

    def stretch(self) -> Took:
        """What one took."""
        print("go", file=self._ask, flush=True)
        return Took(*json.loads(self._told.readline()))

    def end(self) -> None:
        """Wait until it is over. All was told by then: now and then torch aborts a process that has left its group."""
        self._ask.close()
        self._process.wait()


def main() -> None:
    """Measure, and print one table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--null", action="store_true")
    parser.add_argument("--workloads", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--bytecodes", action="store_true")
    parser.add_argument("--pipes", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--count", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pipes:
        return _rank(options.workloads[0], *options.pipes)
    if options.count:
        return _count(options.workloads[0])
    if options.bytecodes:
        for name in options.workloads:
            plain, watched = _bytecodes(name, False), _bytecodes(name, True)
            print(f"{name}: {plain:.0f} bytecodes a step, {watched:.0f} watched ({watched / plain - 1:+.2%})")
        return None
    where = torch.cuda.get_device_name() if _gpus() else f"{os.cpu_count()} CPUs"
    print(
        f"{options.pairs} pairs, {options.rounds} rounds each; {_ranks()} ranks on {where}; torch {torch.__version__}\n"
    )
    compared = "unwatched / unwatched" if options.null else "watched / not"
    print(f"| workload | ms a step, unwatched | {compared}: median (95 %), all | of processor time | own account |")
    print("|---|---|---|---|---|")
    for name in options.workloads:
        print(
            _row(name, [_pair(name, options.rounds, watched=not options.null) for _ in range(options.pairs)]),
            flush=True,
        )
    print(f"\nload average {os.getloadavg()[0]:.1f}")
    return None


def _bytecodes(name: str, watched: bool) -> float:
    """Of one step of one rank."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", __file__, "--count", "--workloads", name]
    if watched:
        command = [sys.executable, "-m", "gpudoctor", "run", "--no-lint", "--", *command]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(done.stdout.split()[-1])


def _count(name: str) -> None:
    """Print it: the mean of many, for not all are looked at alike."""
    dist.init_process_group("gloo")
    step = _training(name, torch.device("cpu"))
    for _ in range(_BEFORE):
        next(step)
    executed = 0

    def follow(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal executed
        executed += event == "opcode"
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return follow

    gc.disable()
    sys.settrace(follow)
    for _ in range(_COUNTED):
        next(step)
    sys.settrace(None)
    print(executed / _COUNTED)
    dist.destroy_process_group()


def _gpus() -> int:
    return torch.cuda.device_count()


def _ranks() -> int:
    return min(_gpus() or 2, 2)


class Pair(NamedTuple):
    """The medians of one pair of jobs: both ratios, and seconds of a step that nobody watched; the other's account."""

    clock: float
    processor: float
    step: float
    account: float


def _pair(name: str, rounds: int, *, watched: bool) -> Pair:
    with tempfile.TemporaryDirectory() as scratch:
        plain, other = Job(Path(scratch, "plain"), name, False), Job(Path(scratch, "other"), name, watched)
        pairs = []
        for number in range(rounds + 2):
            # Whoever is first may find the machine in another state.
            first, second = (plain, other) if number % 2 else (other, plain)
            begun, after = first.stretch(), second.stretch() + second.stretch()
            took = {first: begun + first.stretch(), second: after}
            # The first ones build buckets, and have every step looked at closely.
            if number >= 2:
                pairs.append((took[other], took[plain]))
        for job in (plain, other):
            job.end()
        timing = json.loads(other.report.read_text())["timing"] if watched else []
    return Pair(
        statistics.median(one.clock / both.clock for one, both in pairs),
        statistics.median(one.processor / both.processor for one, both in pairs),
        statistics.median(both.clock for _, both in pairs) / (2 * STEPS[name][bool(_gpus())]),
        max((each["overhead"] for each in timing), default=0.0),
    )


def _row(name: str, pairs: Sequence[Pair]) -> str:
    step = 1e3 * statistics.median(each.step for each in pairs)
    clock = _spread([each.clock for each in pairs])
    processor = _spread([each.processor for each in pairs])
    return f"| {name} | {step:.2f} | {clock} | {processor} | {max(each.account for each in pairs):.1%} |"


def _spread(ratios: list[float]) -> str:
    low, high = _interval(sorted(ratios))
    return f"{statistics.median(ratios):.4f} ({low:.4f}-{high:.4f}), {min(ratios):.3f}-{max(ratios):.3f}"


def _interval(ratios: list[float]) -> tuple[float, float]:
    """Where the median of all such pairs lies with 95 %: so many of them are below it as of tosses of a coin."""
    count = len(ratios)
    reach = 0.98 * math.sqrt(count)
    return ratios[max(0, math.floor(count / 2 - reach))], ratios[min(count - 1, math.ceil(count / 2 + reach))]


def _rank(name: str, asked: str, told: str) -> None:
    gpu = bool(_gpus())
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpu else "gloo")
    step = _training(name, device)
    first = dist.get_rank() == 0
    with contextlib.ExitStack() as stack:
        ask = stack.enter_context(open(asked)) if first else None
        tell = stack.enter_context(open(told, "w")) if first else None
        while True:
            go = torch.tensor(bool(ask.readline()) if ask else False, dtype=torch.int32, device=device)
            dist.broadcast(go, 0)
            if not go.item():
                break
            clock, processor = time.perf_counter(), time.process_time()
            for _ in range(STEPS[name][gpu]):
                next(step)
            if gpu:
                torch.cuda.synchronize()
            if tell:
                print(json.dumps((time.perf_counter() - clock, time.process_time() - processor)), file=tell, flush=True)
    dist.destroy_process_group()


def _training(name: str, device: torch.device) -> Iterator[None]:
    """A loop as users write it; each `next` makes a step."""
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    gpu = device.type == "cuda"
    workload, samples = _workload(name, gpu), SAMPLES[name][gpu]
    data = TensorDataset(*workload.batch(samples * dist.get_world_size() * (32 if name == "cifar10" else 256), 0))
    sampler: Any = DistributedSampler(data)
    loader = DataLoader(data, batch_size=samples, sampler=sampler)
    model = DistributedDataParallel(workload.model().to(device))
    optimizer = torch.optim.Adam(model.parameters(), lr=workload.rate)
    for epoch in range(10**9):
        sampler.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            workload.loss(model, inputs.to(device), labels.to(device)).backward()
            optimizer.step()
            yield


def _workload(name: str, gpu: bool) -> Any:
    from gpudoctor.probe.workloads import cifar10, linear, transformer

    if name == "transformer":
        return transformer.workload(transformer.SIZES[-2 if gpu else 0])
    return {"linear": linear, "cifar10": cifar10}[name].workload(SAMPLES[name][gpu])


if __name__ == "__main__":
    main()
