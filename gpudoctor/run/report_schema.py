"""The report of a run for machines: the records of its JSON, whose members are added to and never renamed."""

from __future__ import annotations

from collections.abc import Mapping

from gpudoctor.record import dataclass
from gpudoctor.run.agreement import Agreement, agreements, why_no_agreement
from gpudoctor.run.going_on import GoneOn, gone_on
from gpudoctor.run.hang_verdict import verdict_of
from gpudoctor.run.outcome import Watched
from gpudoctor.run.overlap import Overlap, overlap, why_no_overlap
from gpudoctor.run.recording import Process, Waiting
from gpudoctor.run.recording.process_ends import Crash
from gpudoctor.run.timing import RankTime, samples_per_second, times_of, tokens_per_second
from gpudoctor.run.untried import first_crash, untried


@dataclass(frozen=True)
class SuspicionEntry:
    """A finding of lint: its rule, its place, and its `state`: `confirmed`, `cleared` or `not reached`."""

    code: str
    path: str
    line: int
    state: str


@dataclass(frozen=True)
class CrashEntry:
    """An exception that nobody caught."""

    type: str
    text: str


@dataclass(frozen=True)
class RankEntry:
    """One rank. `steps` counts those of its optimizers; `device` is where its parameters are, `gpu` names the GPU as
    the driver does, and is empty on a CPU. `faults` are errors of gpudoctor while it watched."""

    rank: int | None
    world_size: int
    local_rank: int | None
    host: str
    pid: int
    backend: str
    torch: str
    steps: int
    device: str
    gpu: str
    crash: CrashEntry | None
    faults: tuple[str, ...]


@dataclass(frozen=True)
class TimingEntry:
    """Where the middle step of a rank went, in seconds as its host saw them; what is null was not told apart.

    `backward` holds the communication that it does not hide as far as `communication` is null. On a GPU it always is,
    and `exposed_communication_seconds` is what DDP measured on the GPU itself. `host_to_device_seconds` is
    what the host took for copies of batches, which is less than they took where they go on by themselves; null where
    there were none, and in programs that call `torch.compile`. `memory_bytes` is the most that was held after a step,
    `peak_bytes` the most at once, on the GPU where there is one. `overhead` is our own share of the time, between 0
    and 1.
    """

    rank: int
    step_seconds: float
    data_seconds: float
    host_to_device_seconds: float | None
    forward_seconds: float | None
    backward_seconds: float
    communication_seconds: float | None
    optimizer_seconds: float
    other_seconds: float
    exposed_communication_seconds: float | None
    memory_bytes: int | None
    peak_bytes: int | None
    overhead: float


@dataclass(frozen=True)
class HangEntry:
    """Where a rank stood when the ranks did not advance; `collective` is what it waited in. `silence` says why it could
    not tell that itself (`has ended`, `is stopped`, `does not answer`, `cannot be reached`), and is empty where it
    could; `kernel` is the function of the kernel in which one sleeps that does not answer. `told` is what NCCL says of
    a rank on another node, and its stand-in of one that came with something else than another rank."""

    rank: int
    path: str | None
    line: int | None
    collective: str | None
    number: int | None
    silence: str
    told: str
    kernel: str


@dataclass(frozen=True)
class HangVerdictEntry:
    """What kept the ranks from advancing: `rank ended`, `interpreter stuck`, `rank missing`, `collectives differ`,
    `kernel stuck`, `nobody sends` or `no collective open`; and the ranks that are the cause, none where all wait
    alike."""

    kind: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class RankComparison:
    """What the ranks have in common. `overlap` is about their data in one epoch, `agreement` about their parameters
    after the steps at which they were looked at. Where one is null or empty, `because` it says why."""

    published_as = "Comparison"

    overlap: Overlap | None
    no_overlap_because: str
    agreement: tuple[Agreement, ...]
    no_agreement_because: str


@dataclass(frozen=True)
class RunReport:
    """What `gpudoctor run` has seen. `status` is the exit code of the command, null where it was ended by gpudoctor.
    `faults` are errors of gpudoctor beside the ranks.

    `tokens_per_second` is told where batches of whole numbers are known to be sequences of tokens: they are called
    `input_ids`, or the number at each position is predicted; paddings are included.
    With `virtual` the GPUs were virtual ones: times and memory are those of the host, and nothing is judged by them.
    `runs_eagerly` says that nothing of what `torch.compile` was given was compiled; `skipped_kernels` are modules that
    a stand-in replaced; `cannot_be_tried` is what the program ended at because only a real GPU has it.
    `ended_with` is the first exception that nobody caught, also of a process that is no rank.
    `steps` has the seconds of each step and `memory` pairs of a step and the bytes held after it, both by rank.
    """

    status: int | None
    seconds: float
    suspicions: tuple[SuspicionEntry, ...]
    ranks: tuple[RankEntry, ...]
    steps: Mapping[str, tuple[float, ...]]
    memory: Mapping[str, tuple[tuple[int, int], ...]]
    timing: tuple[TimingEntry, ...]
    samples_per_second: float | None
    tokens_per_second: float | None
    comparison: RankComparison
    hang: tuple[HangEntry, ...]
    hang_verdict: HangVerdictEntry | None
    gone_on: tuple[GoneOn, ...]
    faults: tuple[str, ...]
    virtual: bool
    runs_eagerly: bool
    skipped_kernels: tuple[str, ...]
    cannot_be_tried: str | None
    ended_with: CrashEntry | None


def report_of(watched: Watched) -> RunReport:
    """The report of a run, without its findings."""
    recording = watched.recording
    verdict = verdict_of(recording.hang)
    samples, tokens = samples_per_second(recording.timed_ranks), tokens_per_second(recording.timed_ranks)
    return RunReport(
        status=recording.status,
        seconds=round(recording.seconds, 3),
        suspicions=tuple(
            SuspicionEntry(each.finding.code, each.finding.location.path, each.finding.location.line, each.state)
            for each in watched.suspicions
        ),
        ranks=tuple(_rank(each) for each in recording.ranks),
        steps={str(each.rank): tuple(round(step.took, 6) for step in each.steps) for each in recording.ranks},
        memory={str(each.rank): memory_of(each) for each in recording.ranks},
        timing=tuple(_timing(each) for each in times_of(recording.timed_ranks)),
        samples_per_second=None if samples is None else round(samples, 3),
        tokens_per_second=None if tokens is None else round(tokens, 3),
        comparison=RankComparison(
            overlap=overlap(recording),
            no_overlap_because=why_no_overlap(recording),
            agreement=agreements(recording),
            no_agreement_because=why_no_agreement(recording),
        ),
        hang=tuple(_hang(each) for each in recording.hang),
        hang_verdict=HangVerdictEntry(verdict.kind.value, verdict.ranks) if verdict else None,
        gone_on=gone_on(recording),
        faults=recording.faults,
        virtual=recording.virtual,
        runs_eagerly=recording.runs_eagerly,
        skipped_kernels=recording.skipped_kernels,
        cannot_be_tried=end.what if (end := untried(recording)) else None,
        ended_with=_crash(crash) if (crash := first_crash(recording)) else None,
    )


def memory_of(process: Process) -> tuple[tuple[int, int], ...]:
    """Steps at which the memory was looked at, and the bytes that were held then."""
    return tuple((step.number, step.memory) for step in process.steps if step.memory is not None)


def _crash(crash: Crash) -> CrashEntry:
    return CrashEntry(crash.type, crash.text)


def _rank(process: Process) -> RankEntry:
    return RankEntry(
        rank=process.rank,
        world_size=process.world,
        local_rank=process.local_rank,
        host=process.host,
        pid=process.pid,
        backend=process.backend,
        torch=process.torch,
        steps=process.made,
        device=next((each.device for each in process.optimizers), ""),
        gpu=next((each.gpu for each in process.optimizers), ""),
        crash=_crash(process.crash) if process.crash else None,
        faults=process.faults,
    )


def _timing(each: RankTime) -> TimingEntry:
    parts = {f"{_MEMBERS.get(name, name)}_seconds": round(seconds, 6) for name, seconds in each.parts.items()}
    return TimingEntry(
        rank=each.rank,
        step_seconds=round(each.step, 6),
        exposed_communication_seconds=None if each.communication is None else round(each.communication, 6),
        memory_bytes=each.memory,
        peak_bytes=each.peak,
        overhead=round(each.overhead, 4),
        **{**dict.fromkeys(_NOT_ALWAYS), **parts},  # type: ignore[arg-type]
    )


_MEMBERS = {"copy": "host_to_device"}
_NOT_ALWAYS = ("host_to_device_seconds", "forward_seconds", "communication_seconds")


def _hang(each: Waiting) -> HangEntry:
    return HangEntry(
        rank=each.rank,
        path=each.place.path if each.place else None,
        line=each.place.line if each.place else None,
        collective=each.collective.name if each.collective else None,
        number=each.collective.number if each.collective else None,
        silence=each.silence,
        told=each.told,
        kernel=each.kernel,
    )
