"""Start ranks of our own on this node through torch's launcher, watch them, and leave none of them behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sysconfig
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpudoctor.probe import measurement_plan as plans
from gpudoctor.probe.inventory.subprocess_query import memory_file
from gpudoctor.probe.journal import Journal, RankState
from gpudoctor.probe.rank_process import PLAN, SHOW_STACKS
from gpudoctor.probe.stages import START, START_SECONDS, stages_of
from gpudoctor.ranks.loopback import LOOPBACK
from gpudoctor.ranks.process_tree import ON_LINUX, PROC, adopting_orphans, children, end_all
from gpudoctor.ranks.scratch import scratch
from gpudoctor.ranks.starting import module_command
from gpudoctor.record import dataclass

WORKER = "gpudoctor.probe.rank_process"
FOLDER = "gpudoctor-probe-"
"""How the names of folders begin in which the ranks of a node meet."""
MOST_ROUNDS = 4
"""How often ranks are started for what is left; then enough has broken to know."""
_LOOK_EVERY = 0.1
_LOOPBACK_KIND = "772"
"""As the kernel counts kinds of interfaces."""
_GRACE = 3.0
"""Seconds for the others to tell their side, once one rank has raised or died."""
_FOREIGN = (
    "GPUDOCTOR_PROBE_",
    "PET_",
    "TORCHELASTIC_",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "GROUP_",
    "MASTER_",
    "ROLE_",
)
"""What an outer launcher may have left in the environment, and what would change ours."""


@dataclass(frozen=True)
class Round:
    """One start of the ranks: how far they came. `broken` names the stage that broke, and is empty where none did."""

    states: Mapping[int, RankState]
    broken: str = ""
    limit: float = 0.0


Watcher = Callable[[Mapping[int, RankState]], None]


def run_round(
    plan: plans.MeasurementPlan,
    *,
    timeout: float | None = None,
    worker: str = WORKER,
    watcher: Watcher = lambda states: None,
    given: Mapping[str, str] | None = None,
    launcher: Launcher | None = None,
) -> Round:
    """Start the ranks of `plan` on this node, wait until all is done or something broke, and end them all.

    `timeout` replaces the limit of every stage, in seconds; `given` is added to the environment.
    `launcher` is one that has been started before, and is used up.
    """
    with scratch(FOLDER) as folder, adopting_orphans(), launcher or Launcher() as used:
        (folder / PLAN).write_text(plans.written(plan), encoding="utf-8")
        used.start_ranks(plan, folder, worker, given or {})
        journal = Journal(folder, tuple(range(plan.world.size)))
        try:
            return _watched(plan, used, journal, folder, timeout, watcher)
        except KeyboardInterrupt:
            watcher(journal.read())
            raise


class Launcher:
    """Torch's launcher as a process that loads torch at once, for ranks that are started later.

    A context manager: in the end it and all that it has started are gone.
    """

    def __init__(self) -> None:
        self._output = memory_file()
        self._strangers = set(children(os.getpid()))
        self._process = subprocess.Popen(
            module_command("gpudoctor.probe.launcher_process", str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=self._output,
            stderr=self._output,
            env=_environment(),
            # Ctrl-C reaches the parent alone, which ends the ranks in order.
            start_new_session=True,
        )

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *raised: object) -> None:
        # Who has been reaped already must not be waited for; what it left behind has come to us.
        end_all([] if self.ended else [self._process.pid], self._strangers)
        # Reaped with the others already; this tells the object.
        self._process.poll()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._output.close()

    @property
    def ended(self) -> bool:
        """Whether it has come to its end, and all ranks with it."""
        return self._process.poll() is not None

    @property
    def output(self) -> str:
        """What it has written so far: how each rank has ended, where that was not well."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def start_ranks(self, plan: plans.MeasurementPlan, folder: Path, worker: str, given: Mapping[str, str]) -> None:
        """Let it start the ranks of the plan in this folder; where it has ended already, nothing comes of it."""
        arguments = [f"--nproc-per-node={plan.world.size}", "--nnodes=1", f"--local-addr={LOOPBACK}"]
        # What `--standalone` stands for, without a name: not every machine knows `localhost`.
        arguments += ["--rdzv-backend=c10d", f"--rdzv-endpoint={LOOPBACK}:0", f"--rdzv-id={uuid.uuid4()}"]
        arguments += ["--max-restarts=0", "--monitor-interval=0.1", "--redirects=3", f"--log-dir={folder / 'logs'}"]
        order = {
            "arguments": arguments,
            "worker": worker,
            "folder": str(folder),
            "environment": dict(given),
            "fork": plan.world.device == "cpu" and ON_LINUX,
        }
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    # The launcher would set 1 and warn of it; ranks on a CPU divide the cores themselves.
    kept.setdefault("OMP_NUM_THREADS", "1")
    # Else gloo asks for the address of the machine's own name, which may be unknown: for seconds, or for ever.
    kept.setdefault("GLOO_SOCKET_IFNAME", _loopback_interface())
    # What the ranks start in turn; the ranks themselves need no such help.
    kept["PYTHONSAFEPATH"] = "1"
    ours = str(Path(__file__).resolve().parents[2])
    # An installed one is found anyhow, and its neighbours must not come before Python's own modules.
    if ours not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        kept["PYTHONPATH"] = os.pathsep.join(part for part in (ours, kept.get("PYTHONPATH")) if part)
    return kept


def _loopback_interface() -> str:
    """Its name is `lo` on all Linux systems but a few."""
    kinds = {path.parent.name: path.read_text().strip() for path in Path("/sys/class/net").glob("*/type")}
    return next((name for name, kind in kinds.items() if kind == _LOOPBACK_KIND), "lo")


def _watched(
    plan: plans.MeasurementPlan,
    launcher: Launcher,
    journal: Journal,
    folder: Path,
    timeout: float | None,
    watcher: Watcher,
) -> Round:
    limits = limits_of(plan, timeout)
    began = time.time()
    trouble_since: float | None = None
    while True:
        states = journal.read()
        watcher(states)
        if all(state.over for state in states.values()) or launcher.ended:
            break
        late = overdue(states, limits, began)
        if late:
            add_stacks(states)
            _examine_processes(states, folder, launcher)
            return Round(states, late, limits[late])
        look_at_processes(states)
        if any(state.error or (state.process == "gone" and not state.over) for state in states.values()):
            trouble_since = trouble_since or time.monotonic()
            if time.monotonic() - trouble_since > _GRACE:
                break
        time.sleep(_LOOK_EVERY)
    states = journal.read()
    watcher(states)
    _examine_processes(states, folder, launcher)
    if launcher.ended:
        _without_launcher(states, launcher)
    broken = broken_stage(states, [START, *(stage.name for stage in stages_of(plan))])
    return Round(states, broken, limits.get(broken, 0.0))


def limits_of(plan: plans.MeasurementPlan, timeout: float | None) -> dict[str, float]:
    """Seconds that each stage may take."""
    return {START: timeout or START_SECONDS, **{stage.name: timeout or stage.seconds for stage in stages_of(plan)}}


def overdue(states: Mapping[int, RankState], limits: Mapping[str, float], began: float) -> str:
    """The stage that has taken longer than its limit, or nothing."""
    now = time.time()
    if any(not state.pid for state in states.values()):
        return START if now - began > limits[START] else ""
    inside = [state for state in states.values() if state.inside]
    for state in inside:
        if state.stage in limits and now - state.began > limits[state.stage]:
            return state.stage
    # Between stages the ranks only wait for each other: the next stage has not begun everywhere.
    between = [state for state in states.values() if not state.inside and not state.over and not state.error]
    if between and not inside and now - max(state.began for state in between) > 2 * max(limits.values()):
        return between[0].stage
    return ""


def broken_stage(states: Mapping[int, RankState], order: list[str]) -> str:
    """The first stage that some rank has not come through."""
    return next((name for name in order if any(name not in state.done for state in states.values())), "")


def left_after(order: Sequence[str], broken: str) -> tuple[str, ...]:
    """The stages that come after the one that broke."""
    return tuple(order[list(order).index(broken) + 1 :])


def look_at_processes(states: Mapping[int, RankState]) -> None:
    """Whether the process of each rank still runs, by what the kernel says of it."""
    for state in states.values():
        if state.pid and not state.over:
            state.process = _process(state.pid)


def _process(pid: int) -> str:
    try:
        letter = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "gone"
    return {"T": "stopped", "t": "stopped", "Z": "gone", "X": "gone"}.get(letter, "running")


def add_stacks(states: Mapping[int, RankState]) -> None:
    """Ask the ranks that still run to write where they stand, into their standard error."""
    look_at_processes(states)
    for state in states.values():
        if state.process == "running":
            with contextlib.suppress(ProcessLookupError):
                os.kill(state.pid, SHOW_STACKS)
    time.sleep(0.3)


def _examine_processes(states: Mapping[int, RankState], folder: Path, launcher: Launcher) -> None:
    """Add how each rank ended and what it has written, from the launcher's files."""
    look_at_processes(states)
    codes = _exit_codes(launcher.output)
    for path in folder.glob("logs/*/attempt_*/*/stderr.log"):
        rank = int(path.parent.name)
        if rank in states:
            read_output(states[rank], path)
    for rank, state in states.items():
        state.exit_code = codes.get(state.pid)
        state.process = "gone" if state.process == "unknown" and rank in codes else state.process


def _without_launcher(states: Mapping[int, RankState], launcher: Launcher) -> None:
    """Ranks that have not spoken will not any more, and the launcher may have said why."""
    for state in states.values():
        if not state.pid:
            state.process = "gone"
            state.output = state.output or launcher.output


def read_output(state: RankState, path: Path) -> None:
    """What a rank has written to standard error, its stacks apart from the rest."""
    with contextlib.suppress(OSError):
        text = path.read_bytes()[-40_000:].decode(errors="replace")
        before, sign, stack = text.partition("Current thread" if "Current thread" in text else "Thread 0x")
        state.output, state.stack = before, sign + stack


def _exit_codes(text: str) -> dict[int, int]:
    """Exit codes by process, as the launcher reports them."""
    found = re.findall(r"exitcode\s*:\s*(-?\d+)\)?[^\n]*\(pid:\s*(\d+)\)", text)
    # A rank that was ended because of another one is reported with the signal of the launcher.
    return {int(pid): int(code) for code, pid in found}
