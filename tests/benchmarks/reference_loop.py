"""How much the reference loop of `gpudoctor probe` costs, against the loop that one would write by hand.

    python tests/benchmarks/reference_loop.py [ROUNDS]

Both train the CIFAR-10 network on the same batch, in turns (A B A B), on the GPU where there is one. The ratio is
formed within a round. On a CPU they have one thread, whose processor time is taken: the machine may be shared.
"""

import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

from gpudoctor.probe import reference_step
from gpudoctor.probe.context import Context
from gpudoctor.probe.measurement_plan import MeasurementPlan, World
from gpudoctor.probe.workloads import cifar10

SAMPLES = 16


def by_hand(device: Any, steps: int) -> float:
    """Seconds for this many steps of a loop without anything of ours."""
    model = cifar10.model().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = torch.nn.CrossEntropyLoss()
    inputs, labels = (part.to(device) for part in cifar10.workload(SAMPLES).batch(SAMPLES, 0))
    seconds = 0.0
    for count in (3, steps):
        began = _now(device)
        for _ in range(count):
            optimizer.zero_grad()
            criterion(model(inputs), labels).backward()
            optimizer.step()
        seconds = _now(device) - began
    return seconds


def by_probe(context: Context, steps: int) -> float:
    """Seconds for this many steps of the loop that the probe times."""
    workload = cifar10.workload(SAMPLES)
    inputs, labels = (part.to(context.device) for part in workload.batch(SAMPLES, 0))
    model = workload.model().to(context.device)
    run = reference_step.loop(workload, model, inputs, labels, context)
    run(3)
    began = _now(context.device)
    run(steps)
    return _now(context.device) - began


def _now(device: Any) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return time.perf_counter()
    return time.process_time()


def main(rounds: int) -> None:
    """Print the table."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    world = World(("here",), (0,), device=device.type)
    context = Context(MeasurementPlan(world), 0, 0, device, None, Path(), lambda entry: None)
    torch.set_num_threads(1)
    steps = 500 if device.type == "cuda" else 10
    pairs = [(by_hand(device, steps), by_probe(context, steps)) for _ in range(rounds)]
    ratios = sorted(hand / probe for hand, probe in pairs)
    print(f"{rounds} rounds of {steps} steps on {device.type}, torch {torch.__version__}\n")
    print("| loop | median ms a step |\n|---|---|")
    for name, times in zip(("by hand", "reference loop"), zip(*pairs, strict=True), strict=True):
        print(f"| {name} | {1000 * statistics.median(times) / steps:.3f} |")
    print(f"\nreference / by hand: min {ratios[0]:.3f}, median {statistics.median(ratios):.3f}, max {ratios[-1]:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
