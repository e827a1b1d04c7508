"""Recordings of probes: machines that nobody has at hand, made up, healthy and sick; and those of real machines.

    python -m tests.support.recordings          # writes the healthy ones that are made up into fixtures/recordings
    python -m tests.support.recordings NAME     # records this machine, as fixtures/recordings/NAME.json

A recording holds what the ranks have handed over, and the verdicts that must come of it. What is made up is marked so.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpudoctor.plain import plain
from gpudoctor.probe import inventory
from gpudoctor.probe.checks import bandwidth
from gpudoctor.probe.conclude import concluded
from gpudoctor.probe.launch import run_round
from gpudoctor.probe.measurement_plan import MeasurementPlan, World, written
from gpudoctor.probe.options import Wishes, plan_for
from gpudoctor.probe.reference_step import Trial, trials_of
from gpudoctor.probe.results import Fact, Link, ProbedGpu, ProbedMachine, ProbeReport
from gpudoctor.record import replace

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "recordings"
BEGAN = 1_700_000_000.0
Recording = dict[str, Any]


def machine(count: int, name: str, kind: str) -> ProbedMachine:
    """A node of `count` GPUs that are all joined in the same way."""
    gpus = tuple(
        ProbedGpu(
            index,
            f"GPU-{index}",
            {"name": Fact(name), "pcie_max_generation": Fact(4), "pcie_max_width": Fact(16)},
        )
        for index in range(count)
    )
    links = tuple(
        Link(a.uuid, b.uuid, Fact(kind), Fact("ok" if kind != "SYS" else "not supported"))
        for a in gpus
        for b in gpus
        if a.index < b.index
    )
    uuids = [gpu.uuid for gpu in gpus]
    return ProbedMachine("node1", gpus, links, torch={"version": Fact("2.13.0"), "visible_gpus": Fact(uuids)})


def recording(count: int, name: str, kind: str, *, efficiency: float = 0.95, busbw: float = 370.0) -> Recording:
    """A healthy machine; ranks share the GPU where there is one only."""
    shared = count == 1
    ranks = 2 if shared else count
    world = World(("node1",) * ranks, tuple(range(ranks)), "gloo" if shared else "nccl", "cuda", shared)
    plan = MeasurementPlan(world)
    facts = {rank: _facts(rank, plan, efficiency, busbw) for rank in range(ranks)}
    ends = max(BEGAN + 10 * (index + 1) for index, _ in enumerate(trials_of(plan)))
    samples = {f"GPU-{each}": [[BEGAN + 2 * i, 97.0] for i in range(int(ends - BEGAN) // 2)] for each in range(count)}
    return {
        "synthetic": True,
        "plan": json.loads(written(plan)),
        "machine": [plain(machine(count, name, kind))],
        "facts": facts,
        "samples": samples,
    }


def _facts(rank: int, plan: MeasurementPlan, efficiency: float, busbw: float) -> dict[str, Any]:
    world = plan.world
    size = world.size
    close = {"error": 2e-7, "allowed": 1e-4}
    alone = rank == 0 and not world.shared
    pairs = [
        {"from": a, "to": b, "differ": 0, "peer": True} for a in range(size) for b in range(size) if alone and a != b
    ]
    found: dict[str, Any] = {
        "start": {
            "everybody": [{"device": f"GPU-{0 if world.shared else each}", "torch": "2"} for each in range(size)]
        },
        "device-arithmetic": {"device": f"cuda:{rank}", "wrong": 0, "of": 65536},
        "devices-alike": {"tflops": {"float32": 50.0 + rank / 10, "bfloat16": 600.0}},
        "collectives": {"done": 72, "wrong": [], "lacking": []},
        "messages": {"wrong": []},
        "peer-copies": {"pairs": pairs, "gpus": size, "copied": rank == 0},
        "identical-parameters": {"digests": ["a0", "a1", "a2", "a3", "a4", "a5"], "norm": 6.5},
        "gradients-match": close,
        "data-parallel-gradients": {"gpus": size, **(close if alone else {})},
        "data-parallel-primitives": {"gpus": size, **(close if alone else {})},
        "cpu-gpu-split": close,
        "sync-batchnorm": close,
        "shards": {"epochs": _shards(rank, size), "samples": 11},
        "checkpoint": {"written": "c0" if rank == 0 else "", "read": "c0", "files": ["checkpoint.pt"]},
    }
    if world.shared:
        alone_only = ("devices-alike", "peer-copies", "data-parallel-gradients", "data-parallel-primitives")
        found |= {name: {"not_here": "there are fewer than two GPUs"} for name in alone_only}
    for index, trial in enumerate(trials_of(plan)):
        found[trial.name] = _trial(trial, rank, index, efficiency)
    found["bandwidth-sweep"] = {"rows": _rows(size, busbw)}
    return found


def _shards(rank: int, size: int) -> list[list[int]]:
    epochs = []
    for turn in (0, 3, 0):
        order = [(index + turn) % 11 for index in range(11)]
        order += order[: -11 % size]
        epochs.append(order[rank::size])
    return epochs


def _trial(trial: Trial, rank: int, index: int, efficiency: float) -> dict[str, Any]:
    takes_part = rank < trial.size if trial.strategy == "ddp" else rank == 0
    if not takes_part:
        return {}
    loss = 1.0 if trial.size == 1 else 1 / efficiency
    seconds = [10 * 0.01 * loss * (1 + 0.002 * (block % 3)) for block in range(8)]
    share = 1 if trial.scaling == "weak" else trial.size
    found = {
        "seconds": [each / share for each in seconds],
        "steps": 10,
        "began": BEGAN + 10 * index,
        "ended": BEGAN + 10 * index + 9,
        "batch_per_device": 64 // share,
        "samples_a_step": 64 // share * trial.size,
        "flops_a_step": 2_000_000_000_000 if trial.strategy == "single" else None,
        "first_loss": 2.3,
        "last_loss": 0.4,
        "peak_memory": 3 << 30,
    }
    if trial.strategy == "ddp" and trial.size > 1:
        found["seconds_without_communication"] = [each * 0.97 / share for each in seconds]
    return found


def _rows(size: int, busbw: float) -> list[dict[str, Any]]:
    rows = []
    for total in bandwidth.message_sizes(1 << 28):
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast"):
            reached = busbw * total / (total + (1 << 22))
            seconds = total / 1e9 * bandwidth.factor(collective, size) / reached
            rows.append({"collective": collective, "bytes": total, "seconds": seconds})
    return rows


def changed(base: Recording, change: Callable[[dict[int, dict[str, Any]]], object]) -> Recording:
    """A copy whose facts have been changed."""
    copy: Recording = json.loads(json.dumps(base))
    facts = {int(rank): each for rank, each in copy["facts"].items()}
    change(facts)
    copy["facts"] = facts
    return copy


def _noisy(facts: dict[int, dict[str, Any]]) -> None:
    for each in facts.values():
        for name, trial in each.items():
            if name.startswith("step-") and trial:
                trial["seconds"] = [second * (1 if block % 2 else 1.6) for block, second in enumerate(trial["seconds"])]


def _idle(base: Recording) -> Recording:
    copy: Recording = json.loads(json.dumps(base))
    copy["samples"]["GPU-3"] = [[at, 0.0] for at, _ in copy["samples"]["GPU-3"]]
    return copy


def recordings() -> dict[str, Recording]:
    """Those that are made up: what each shows in `what`, the verdicts that it must lead to in `expected`."""
    healthy = {name: {"what": what, **found, "expected": expected} for name, found, what, expected in _healthy()}
    eight, two = healthy["healthy_8_gpus"], healthy["healthy_2_gpus"]
    sick = (*_sick_pairs(two), *_sick_eights(eight), *_badly_joined())
    return {**healthy, **{name: {**found, "what": what, "expected": expected} for name, found, what, expected in sick}}


Case = tuple[str, Recording, str, dict[str, str]]
FINE = {"ranks-start": "pass", "collectives": "pass", "identical-parameters": "pass", "training-works": "pass"}
FAST = {"ddp-efficiency": "pass", "bus-bandwidth": "pass", "gpus-busy": "pass", "devices-alike": "pass"}


def _healthy() -> list[Case]:
    one = recording(1, "NVIDIA L4", "NODE", efficiency=0.5, busbw=1.0)
    two = recording(2, "NVIDIA GeForce RTX 4090", "PHB", efficiency=0.8, busbw=24.0)
    eight = recording(8, "NVIDIA H100 80GB HBM3", "NV18")
    alone = {**FINE, "ddp-efficiency": "skipped", "peer-copies": "skipped", "gpus-busy": "pass"}
    return [
        ("healthy_1_gpu", one, "one GPU, which two ranks share", alone),
        ("healthy_2_gpus", two, "two GPUs below one host bridge", {**FINE, **FAST}),
        ("healthy_8_gpus", eight, "eight GPUs joined by NVLink", {**FINE, **FAST, "exposed-communication": "pass"}),
    ]


def _on(rank: int, stage: str, **facts: Any) -> Callable[[dict[int, dict[str, Any]]], object]:
    return lambda every: every[rank][stage].update(facts)


def _sick_pairs(two: Recording) -> list[Case]:
    same = [{"device": "GPU-0", "torch": "2"}, {"device": "GPU-0", "torch": "2"}]
    drift = ["a0", "a1", "b2", "b3", "b4", "b5"]
    parts = ("data-parallel-gradients", "data-parallel-primitives")
    nan = float("nan")

    def lose_gradients(every: dict[int, dict[str, Any]]) -> None:
        for part in parts:
            every[0][part]["error"] = 0.5

    cases: tuple[tuple[str, Any, str, tuple[str, ...]], ...] = (
        ("same_gpu", _on(0, "start", everybody=same), "both ranks use one GPU", ("ranks-start",)),
        ("drifting", _on(1, "identical-parameters", digests=drift), "they drift apart", ("identical-parameters",)),
        ("gradients", _on(1, "gradients-match", error=0.01), "gradients are not averaged", ("gradients-match",)),
        ("nan_gradients", _on(1, "gradients-match", error=nan), "gradients are no numbers", ("gradients-match",)),
        ("statistics", _on(0, "sync-batchnorm", error=0.2), "each rank for itself", ("sync-batchnorm",)),
        ("split", _on(1, "cpu-gpu-split", error=0.2), "the half on the GPU is wrong", ("cpu-gpu-split",)),
        ("data_parallel", lose_gradients, "the gradients of a GPU are lost", parts),
        ("no_learning", _on(0, "step-cifar10-data_parallel-2", last_loss=2.3), "the loss stays", ("training-works",)),
        ("nan_loss", _on(1, "step-linear-ddp-2", last_loss=nan), "the loss is no number", ("training-works",)),
        ("product", _on(1, "device-arithmetic", wrong=3), "a GPU computes wrongly", ("device-arithmetic",)),
        ("messages", _on(1, "messages", wrong=["3 of 9 bytes"]), "a message is damaged", ("messages",)),
    )
    return [(name, changed(two, change), what, dict.fromkeys(failing, "fail")) for name, change, what, failing in cases]


def _sick_eights(eight: Recording) -> list[Case]:
    slowed = changed(eight, _on(3, "devices-alike", tflops={"float32": 31.0, "bfloat16": 400.0}))
    refuted = changed(eight, _on(5, "collectives", wrong=["all_reduce of 1 float32: 1 of 1 wrong"]))
    copied = changed(eight, lambda every: every[0]["peer-copies"]["pairs"][1].update(differ=77))
    return [
        ("noisy", changed(eight, _noisy), "somebody else uses the machine", {"ddp-efficiency": "inconclusive"}),
        ("slow_gpu", slowed, "GPU 3 is slowed down", {"devices-alike": "warn"}),
        ("idle_gpu", _idle(eight), "GPU 3 does nothing during the step", {"gpus-busy": "warn"}),
        ("wrong_sum", refuted, "rank 5 receives a wrong sum", {"collectives": "fail"}),
        ("damaged_copy", copied, "copies between two GPUs arrive damaged", {"peer-copies": "fail"}),
    ]


def _badly_joined() -> list[Case]:
    slow = recording(8, "NVIDIA H100 80GB HBM3", "NV18", efficiency=0.55, busbw=20.0)
    far = recording(2, "NVIDIA GeForce RTX 4090", "SYS", efficiency=0.3, busbw=5.0)
    expected = {**FINE, "ddp-efficiency": "fail", "bus-bandwidth": "fail"}
    return [
        ("unused_nvlinks", slow, "NCCL does not use the NVLinks", expected),
        ("far_gpus", far, "two GPUs on two sockets, without peer access", expected),
    ]


def of_this_machine(what: str) -> Recording:
    """What the ranks hand over here, and the verdicts that come of it, to be read before they are kept."""
    stock = inventory.take_stock()
    plan = plan_for(stock, Wishes())
    with inventory.UtilisationSampler(stock.used_by(plan.world.size)) as sampler:
        found = run_round(plan)
    report = concluded(ProbeReport((stock,)), plan, found.states, {}, sampler.samples)
    # The name of a machine, its addresses and its variables are nobody's business.
    world = replace(plan.world, nodes=("this machine",) * plan.world.size)
    return {
        "what": what,
        "synthetic": False,
        "plan": json.loads(written(replace(plan, world=world))),
        "machine": [plain(replace(stock, host="this machine", system={}, environment=(), weak=()))],
        "facts": {rank: state.done for rank, state in found.states.items()},
        "samples": sampler.samples,
        "expected": {check.name: check.verdict.value for check in report.checks},
    }


def text_of(found: Recording) -> str:
    """The file of a recording."""
    return json.dumps(found, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    if len(sys.argv) > 1:
        (FOLDER / f"{sys.argv[1]}.json").write_text(text_of(of_this_machine(sys.argv[1])), encoding="utf-8")
    else:
        for each, content in recordings().items():
            if each.startswith("healthy"):
                (FOLDER / f"{each}.json").write_text(text_of(content), encoding="utf-8")
