"""Reports of probes on machines that nobody has measured, for tests: `python tests/tools/make_recordings.py`.

The figures are made up so that they could be true, and each file says so first thing. They are never to be quoted.
"""

import json
import math
import sys
from pathlib import Path

from gpudoctor.probe.report_json import document
from gpudoctor.probe.results import (
    Bandwidth,
    Check,
    Fact,
    Interval,
    Link,
    ProbedGpu,
    ProbedMachine,
    ProbedVariable,
    ProbeReport,
    StepResult,
    Utilisation,
    Verdict,
)
from gpudoctor.record import replace

FOLDER = Path(__file__).parents[2] / "fixtures" / "recordings"
NOTE = "MADE UP for the tests of gpudoctor: no machine was measured, do not quote these figures"
GIB = 1 << 30
PASSING = {
    "ranks-start": "all ranks have met",
    "device-arithmetic": "256 x 256 products are exact on every rank",
    "collectives": "72 cases are exact on every rank",
    "messages": "1 MiB between neighbours arrive intact, both ways",
    "identical-parameters": "the parameters of all ranks are the same, bit by bit, after 5 steps",
    "gradients-match": "DDP gives the gradients of one process with the whole batch",
    "shards": "the shards cover 1009 samples and follow the epoch",
    "checkpoint": "one file, read by all ranks alike",
}


def made_up() -> dict[str, ProbeReport]:
    """The reports by the names of their files."""
    return {
        "probe_healthy_8_gpus.json": healthy(),
        "probe_slow_gpu.json": slow_gpu(),
        "probe_one_gpu.json": one_gpu(),
        "probe_no_gpu.json": no_gpu(),
    }


def healthy() -> ProbeReport:
    """Eight H100 behind NVSwitch, all well."""
    return ProbeReport(
        machine=(_node(8),),
        checks=(*_passing(), *_speed(0.93, 362.0)),
        steps=(*_steps({1: 0.985, 2: 0.962, 4: 0.947, 8: 0.931}, _shares(8, {})), *_epochs(4.1, 0.71)),
        bandwidth=_bandwidth(8, 370.0),
        notes=(NOTE,),
        world_size=8,
        backend="nccl",
        device="cuda",
        seconds=48.3,
    )


def slow_gpu() -> ProbeReport:
    """The same machine, where GPU 5 is too hot and its NVLinks are down, so that collectives go over PCIe."""
    sound = healthy()
    node = sound.machine[0]
    hot = replace(
        node.gpus[5],
        facts={
            **node.gpus[5].facts,
            "temperature": Fact(89),
            "slowed_by": Fact(["thermal slowdown (hardware)"]),
            "nvlink_active": Fact(0),
            "nvlink_version": Fact(None, "all links are down"),
        },
    )
    weak = Check(
        "gpu-throttled", Verdict.WARN, 89.0, "degrees Celsius", "<= 85", "NVML: slowdown temperature of this model",
        "GPU 5 lowers its clock to 1095 of 1980 MHz because it is too hot",
        "look at its fans and the air in front of it; `nvidia-smi -q -d PERFORMANCE -i 5`", node.host,
    )  # fmt: skip
    links = tuple(
        replace(link, kind=Fact("SYS"), p2p=Fact("chipset not supported")) if hot.uuid in (link.a, link.b) else link
        for link in node.links
    )
    node = replace(
        node,
        gpus=(*node.gpus[:5], hot, *node.gpus[6:]),
        links=links,
        environment=(
            *node.environment,
            ProbedVariable(
                "NCCL_P2P_DISABLE", "1", "no GPU reads another's memory; but that halves the bandwidth here"
            ),
        ),
        weak=(weak,),
    )
    return replace(
        sound,
        machine=(node,),
        checks=(weak, *_passing(), _devices_alike(), *_speed(0.524, 11.2, 63)),
        steps=_steps({1: 0.984, 2: 0.958, 4: 0.941, 8: 0.524}, _shares(8, {5: 41.0})),
        bandwidth=_bandwidth(8, 11.4),
        seconds=61.9,
    )


def one_gpu() -> ProbeReport:
    """One card of a workstation, which two ranks share over gloo."""
    note = "several ranks share one GPU: shows that it works, not how fast"
    why = "the ranks share one GPU, so speed says nothing"
    steps = tuple(
        # One rank alone has the GPU to itself.
        row if row.strategy == "single" else replace(row, meaningful=False, note=note, utilisation=_used({0: 74.0}))
        for row in _steps({2: 0.41}, ())
        if row.scaling == "weak" and row.strategy != "data_parallel"
    )
    return ProbeReport(
        machine=(_node(1, "NVIDIA GeForce RTX 4090", 24 * GIB, host="workstation"),),
        checks=(
            *_passing(),
            *(Check(name, Verdict.SKIPPED, reason=why) for name in ("ddp-efficiency", "bus-bandwidth")),
        ),
        steps=steps,
        bandwidth=tuple(replace(row, backend="gloo", meaningful=False) for row in _bandwidth(2, 1.6)),
        notes=(NOTE, "2 ranks share one GPU over gloo: that shows that training is correct, not how fast it is"),
        world_size=2,
        backend="gloo",
        device="cuda",
        seconds=31.0,
    )


def no_gpu() -> ProbeReport:
    """A laptop without a GPU: two ranks on its CPU."""
    note = "on a CPU: shows that it works, not how fast"
    because = "libnvidia-ml.so.1 is not there: no NVIDIA driver, or a container that was started without it"
    node = replace(_node(0, host="laptop"), torch={"version": Fact("2.13.0+cpu"), "cuda": Fact(None, "built without")})
    node = replace(node, system={**node.system, "driver_version": Fact(None, because)})
    skipped = ("ddp-efficiency", "ddp-strong-efficiency", "exposed-communication", "bus-bandwidth")
    return ProbeReport(
        machine=(node,),
        checks=(
            *_passing(),
            *(Check(name, Verdict.SKIPPED, reason="speed is not judged on a CPU") for name in skipped),
        ),
        steps=tuple(
            replace(row, device="cpu", meaningful=False, note=note, tflops=None, ceiling_tflops=None, peak_memory=None)
            for row in _steps({2: 0.31}, ())
            if row.scaling == "weak" and row.strategy != "data_parallel"
        ),
        bandwidth=tuple(replace(row, backend="gloo", meaningful=False) for row in _bandwidth(2, 1.2)),
        notes=(NOTE, "no GPU was examined: 2 ranks on the CPU show that training is correct, not how fast it is"),
        world_size=2,
        backend="gloo",
        device="cpu",
        seconds=12.7,
    )


def _node(
    count: int, model: str = "NVIDIA H100 80GB HBM3", memory: int = 80 * GIB, host: str = "gpu-node-1"
) -> ProbedMachine:
    gpus = tuple(_gpu(index, model, memory) for index in range(count))
    pairs = [(a.uuid, b.uuid) for at, a in enumerate(gpus) for b in gpus[at + 1 :]]
    return ProbedMachine(
        host=host,
        gpus=gpus,
        links=tuple(Link(a, b, Fact("NV18"), Fact("ok")) for a, b in pairs),
        system={
            "driver_version": Fact("570.86.15"),
            "driver_cuda": Fact("12.8"),
            "os": Fact("Ubuntu 22.04.5 LTS"),
            "python": Fact("3.11.9"),
            "cpu": Fact("INTEL(R) XEON(R) PLATINUM 8480C"),
            "cpus": Fact(112 if count > 1 else 16),
            "cpu_quota": Fact(None, "no limit is set"),
            "memory_total": Fact(2000 * GIB if count > 1 else 64 * GIB),
            "shm_total": Fact(1000 * GIB if count > 1 else 32 * GIB),
            "memlock": Fact("unlimited"),
        },
        torch={
            "version": Fact("2.13.0+cu128"),
            "cuda": Fact("12.8"),
            "nccl": Fact("2.27.3"),
            "backends": Fact(["nccl", "gloo"]),
            "visible_gpus": Fact([gpu.uuid for gpu in gpus]),
        },
        environment=(ProbedVariable("OMP_NUM_THREADS", "1", "one thread a rank for work on the CPU"),),
    )


def _gpu(index: int, model: str, memory: int) -> ProbedGpu:
    facts = {
        "name": Fact(model),
        "capability": Fact("9.0"),
        "memory_total": Fact(memory),
        "memory_used": Fact(512 << 20),
        "temperature": Fact(38 + index % 3),
        "slowed_by": Fact([]),
        "pcie_max_generation": Fact(5),
        "pcie_max_width": Fact(16),
        "nvlink_active": Fact(18) if "H100" in model else Fact(None, "this model has no NVLink"),
        "ecc_uncorrected": Fact(0) if "H100" in model else Fact(None, "this model has no ECC"),
        "mig": Fact(False),
    }
    return ProbedGpu(index, f"GPU-00000000-0000-0000-0000-{index:012d}", facts)


def _passing() -> tuple[Check, ...]:
    return tuple(Check(name, Verdict.PASS, 0.0, "wrong", "0", reason=reason) for name, reason in PASSING.items())


def _devices_alike() -> Check:
    return Check(
        "devices-alike", Verdict.WARN, 1.79, "fastest / slowest", "<= 1.1", "DDP waits for the slowest GPU",
        "rank 5 on gpu-node-1 reaches 28.4 TFLOP/s, rank 0 50.9",
        "`nvidia-smi -q -d PERFORMANCE` tells why it is slow; CUDA_VISIBLE_DEVICES leaves it out",
    )  # fmt: skip


def _speed(efficiency: float, bandwidth: float, link: int = 450) -> tuple[Check, ...]:
    well = efficiency >= 0.9
    bands = "DDP on 8 DGX V100: 93 % of linear (pytorch/benchmarks/distributed/ddp); the bands by connection are ours"
    low, high = efficiency - 0.008, efficiency + 0.008
    return (
        Check(
            "ddp-efficiency", Verdict.PASS if well else Verdict.FAIL, efficiency, "of linear",
            ">= 90% with GPUs joined by NVLink", bands,
            f"transformer on 8 GPUs reaches {efficiency:.0%} of linear ({low:.0%} to {high:.0%})",
            "" if well else "compare the checks `bus-bandwidth` and `exposed-communication`",
        ),
        Check(
            "bus-bandwidth", Verdict.PASS if well else Verdict.FAIL, bandwidth, "GB/s",
            f">= {0.7 * link:.0f}, 70% of {link}", "what the links can do in one direction",
            f"all_reduce of 256 MiB reaches {bandwidth} GB/s on the bus",
            "" if well else "`nvidia-smi topo -m` and `NCCL_DEBUG=INFO` show which way NCCL takes",
        ),
    )  # fmt: skip


_RATES = {"linear": (410_000.0, 64, 0.00001), "cifar10": (21_500.0, 256, 0.0016), "transformer": (61.0, 8, 0.31)}
"""Samples a second on one device, batch, and TFLOP a sample."""


def _steps(efficiencies: dict[int, float], used: tuple[Utilisation, ...]) -> tuple[StepResult, ...]:
    widest = max(efficiencies)
    rows = []
    for workload in _RATES:
        rows.append(_step(workload, "single", 1, 1.0, used if widest == 2 else ()))
        if widest > 2:
            rows.append(_step(workload, "data_parallel", widest, 0.33, ()))
        sizes = efficiencies if workload == "transformer" else {widest: efficiencies[widest] - 0.02}
        rows += [_step(workload, "ddp", size, share, used if size == widest else ()) for size, share in sizes.items()]
        if workload != "linear":
            rows.append(_step(workload, "ddp", widest, efficiencies[widest] - 0.11, (), "strong"))
    return tuple(rows)


def _step(
    workload: str, strategy: str, size: int, share: float, used: tuple[Utilisation, ...], scaling: str = "weak"
) -> StepResult:
    alone, batch, work = _RATES[workload]
    rate = alone * size * share
    batch = batch // size if scaling == "strong" else batch
    return StepResult(
        workload=workload,
        strategy=strategy,
        world_size=size,
        scaling=scaling,
        device="cuda",
        batch_per_device=batch,
        steps=160,
        samples_per_second=Interval(rate, 0.994 * rate, 1.006 * rate, 8),
        seconds_per_step=batch * size / rate,
        speedup=size * share,
        efficiency=share,
        exposed_communication=round(0.9 * (1 - share), 3) if strategy == "ddp" and size > 1 else None,
        peak_memory=int((9.4 if workload == "transformer" else 1.1) * GIB),
        tflops=work * alone * share,
        ceiling_tflops=50.9,
        first_loss=2.31,
        last_loss=0.84,
        utilisation=used,
    )


def _epochs(seconds: float, accuracy: float) -> tuple[StepResult, ...]:
    """An epoch of the real files on one device and on eight."""
    times = {"single": (1, 5.6 * seconds), "ddp": (8, seconds)}
    return tuple(
        StepResult(
            workload="cifar10-files",
            strategy=strategy,
            world_size=size,
            device="cuda",
            batch_per_device=128,
            steps=390 // size,
            seconds_per_step=whole / (390 // size),
            loader_wait=0.03,
            first_loss=2.31,
            last_loss=0.92,
            accuracy=accuracy - 0.01 * (size > 1),
            seconds_per_epoch=whole,
        )
        for strategy, (size, whole) in times.items()
    )


def _shares(count: int, low: dict[int, float]) -> tuple[Utilisation, ...]:
    return _used({index: low.get(index, 97.0) for index in range(count)})


def _used(means: dict[int, float]) -> tuple[Utilisation, ...]:
    found = []
    for index, mean in means.items():
        samples = [(round(0.2 * at, 1), round(min(100.0, mean + 3 * math.sin(at + index)), 1)) for at in range(1, 25)]
        average = round(sum(percent for _, percent in samples) / len(samples), 1)
        found.append(Utilisation(f"GPU-00000000-0000-0000-0000-{index:012d}", average, tuple(samples)))
    return tuple(found)


def _bandwidth(ranks: int, best: float) -> tuple[Bandwidth, ...]:
    """A rise from latency to the plateau, as all collectives show it."""
    rows = []
    for size in (1 << 15, 1 << 18, 1 << 21, 1 << 24, 25 << 20, 1 << 27, 1 << 28):
        for collective, share, factor in (
            ("all_reduce", 1.0, 2 * (ranks - 1) / ranks),
            ("all_gather", 0.94, (ranks - 1) / ranks),
            ("reduce_scatter", 0.95, (ranks - 1) / ranks),
            ("broadcast", 0.88, 1.0),
        ):
            busbw = round(share * best * size / (size + best * 2.5e4), 3)
            algbw = busbw / factor
            seconds = size / algbw / 1e9
            rows.append(Bandwidth(collective, "float32", size, ranks, seconds, algbw, busbw, "nccl"))
    return tuple(rows)


def main() -> int:
    """Write them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, report in made_up().items():
        text = json.dumps({"synthetic": True, **document(report)}, indent=1, allow_nan=False)
        (FOLDER / name).write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
