"""Who is to blame when ranks raise, die or hang: the first cause, told apart from what follows from it. Pure."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping

from gpudoctor.probe.journal import LOST, RankState
from gpudoctor.probe.results import Check, Verdict

_LAST_LINES = 15
_CRASHES = (-signal.SIGABRT, -signal.SIGSEGV)
_OF_DEVICES = (
    "cuda error",
    "hip error",
    "cublas_status",
    "cudnn_status",
    "gpu is lost",
    "uncorrectable",
    "no kernel image",
)
"""What a rank says whose own device fails. That memory ran out is none of these."""
_MEMORY = ("outofmemoryerror", "out of memory", "cannot allocate memory", "defaultcpuallocator")


def verdict_of(stage: str, states: Mapping[int, RankState], *, backend: str, limit: float) -> Check:
    """What a stage that broke comes to: the rank that broke it, what it did, and what to do about it."""
    lost = [state for state in states.values() if state.process == LOST]
    if lost:
        return _lost(stage, lost[0])
    dead = [state for state in states.values() if state.process == "gone" and not state.over and not state.error]
    raised = [state for state in states.values() if state.error]
    stopped = [state for state in states.values() if state.process == "stopped"]
    if stopped:
        return _stopped(stage, stopped[0], limit)
    # A rank that is killed makes the others raise "connection closed": they tell nothing.
    if dead and not _raised_before(raised, dead):
        return _dead(stage, _first_dead(dead))
    if raised:
        return _raised(stage, min(raised, key=lambda state: state.error_at))
    return _hung(stage, states, backend, limit)


def stuck(states: Mapping[int, RankState]) -> bool:
    """Whether all ranks are alive and stand in the same place: the connection between them is to blame, and no rank."""
    alive = all(state.process == "running" and not state.error for state in states.values())
    return alive and not _lagging(states)


def guilty_rank(states: Mapping[int, RankState]) -> int | None:
    """The rank whose device broke the stage, where each has its own; None where something else is to blame."""
    every = list(states.values())
    if any(state.process in (LOST, "stopped") for state in every):
        return None
    crashed = [state for state in every if state.exit_code in _CRASHES and state.pid and not state.over]
    troubled = [state for state in every if any(words in _said(state) for words in _OF_DEVICES)]
    raised = [state for state in every if state.error and not _is_consequence(state)]
    if troubled and len(troubled) < len(every):
        return min(troubled, key=lambda state: state.error_at).rank
    if len(crashed) == 1 and not raised:
        return crashed[0].rank
    if raised or any(state.error or state.process == "gone" for state in every):
        return None
    behind = _lagging(states)
    return behind[0].rank if len(behind) == 1 and behind[0].pid else None


def _said(state: RankState) -> str:
    return f"{state.error['kind']} {state.error['message']}".lower() if state.error else ""


def _lagging(states: Mapping[int, RankState]) -> list[RankState]:
    """Who keeps the others waiting."""
    furthest = max(state.progress for state in states.values())
    behind = [state for state in states.values() if state.progress < furthest]
    # Who is in a collective waits for somebody, also where all ranks have said the same last.
    waiting = [state for state in states.values() if "distributed_c10d.py" in innermost(state.stack)]
    return behind or [state for state in states.values() if waiting and state.stack and state not in waiting]


def _raised_before(raised: list[RankState], dead: list[RankState]) -> bool:
    return any(not _is_consequence(state) for state in raised) and all(state.exit_code in (None, -15) for state in dead)


def _is_consequence(state: RankState) -> bool:
    text = state.error["message"].lower()
    return any(words in text for words in ("connection closed", "connection reset", "broken pipe", "remote process"))


def _first_dead(dead: list[RankState]) -> RankState:
    """Who ended by something else than the launcher's SIGTERM, which the others get when one has died."""
    return next((state for state in dead if state.exit_code not in (None, -signal.SIGTERM)), dead[0])


def _lost(stage: str, state: RankState) -> Check:
    return Check(
        stage,
        Verdict.FAIL,
        reason=f"rank {state.rank} on {state.host} no longer answers, nor does the process that watched it",
        remedy="see whether this node is still up, and why the launcher's agent or the pod on it has ended",
        node=state.host,
    )


def _stopped(stage: str, state: RankState, limit: float) -> Check:
    return Check(
        stage,
        Verdict.FAIL,
        reason=f"rank {state.rank} (process {state.pid} on {state.host}) was stopped by a signal, and the others "
        f"waited {limit:.0f} s for it",
        remedy="see who sends SIGSTOP to processes here: a batch system that suspends jobs, or a debugger",
        node=state.host,
    )


def _dead(stage: str, state: RankState) -> Check:
    if not state.pid:
        last = (state.output.strip().splitlines() or ["without a word"])[-1].strip()
        reason = f"rank {state.rank} ended before it could take part: {last}"
        return Check(stage, Verdict.FAIL, reason=reason, remedy=_remedy_for(last.lower()), details=_tail(state.output))
    how, remedy = _ending(state.exit_code)
    where = f", about to do: {state.mark}" if state.mark else ""
    return Check(
        stage,
        Verdict.FAIL,
        reason=f"rank {state.rank} on {state.host} {how}{where}",
        remedy=remedy,
        node=state.host,
        details=_tail(state.output),
    )


def _ending(code: int | None) -> tuple[str, str]:
    if code is None:
        return "ended without a word", "see `dmesg` for the reason"
    if code == -signal.SIGKILL:
        return (
            "was killed (SIGKILL)",
            "the kernel does that when memory runs out: see `dmesg | grep -i oom` and the limits of the container",
        )
    if code == -signal.SIGBUS:
        return "died of a bus error (SIGBUS)", "/dev/shm is full: `docker run --shm-size=8g`, or `--ipc=host`"
    if code < 0:
        name = signal.Signals(-code).name if -code in list(signal.Signals) else f"signal {-code}"
        return f"died of {name}", "update torch and the driver; the last lines of its output are in the JSON"
    return f"ended with exit code {code}", "the last lines of its output are in the JSON"


def _raised(stage: str, state: RankState) -> Check:
    message = state.error["message"].splitlines()[0] if state.error["message"] else ""
    text = f"{state.error['kind']} {message}".lower()
    if any(words in text for words in _MEMORY):
        return Check(
            stage,
            Verdict.INCONCLUSIVE,
            reason=f"rank {state.rank} on {state.host} ran out of memory: {message}",
            remedy="see who uses the GPU with `nvidia-smi`, and run `gpudoctor probe --workload linear,cifar10`",
            node=state.host,
            details=state.error["traceback"],
        )
    return Check(
        stage,
        Verdict.FAIL,
        reason=f"rank {state.rank} on {state.host} raised {state.error['kind']}: {message}",
        remedy=_remedy_for(text),
        node=state.host,
        details=state.error["traceback"],
    )


_REMEDIES = (
    (
        "no kernel image",
        "this torch was not built for this GPU: install one that lists it in `torch.cuda.get_arch_list()`",
    ),
    ("duplicate gpu", "two ranks use one GPU: start one rank for each GPU, and set the device by LOCAL_RANK"),
    ("have nccl", "this torch has no NCCL: install the CUDA build, https://pytorch.org/get-started/locally"),
    ("address already in use", "something else listens on this port: `ss -ltnp`; set MASTER_PORT to a free one"),
    ("no space left", "/dev/shm or the temporary folder is full: `df -h`; `docker run --shm-size=8g`"),
    ("unable to find address", "the name of this host does not resolve: `GLOO_SOCKET_IFNAME=lo gpudoctor probe`"),
    (
        "remote=[127.",
        "the name of a node stands for 127.0.0.1 there, so that the others look for it on themselves: set "
        "GLOO_SOCKET_IFNAME to the interface between the nodes (`ip addr` lists them), or correct /etc/hosts",
    ),
    ("connection refused", "a firewall or a wrong MASTER_ADDR is in the way of the other ranks"),
    ("gpu is lost", "the GPU has fallen off the bus: reboot, and see `dmesg | grep -i xid`"),
)


def _remedy_for(text: str) -> str:
    return next((remedy for words, remedy in _REMEDIES if words in text), "the whole traceback is in the JSON")


def _hung(stage: str, states: Mapping[int, RankState], backend: str, limit: float) -> Check:
    behind = _lagging(states)
    if not behind:
        return _all_wait(stage, list(states.values()), backend, limit)
    last = min(behind, key=lambda state: state.progress)
    ahead = max((state for state in states.values() if state is not last), key=lambda state: state.progress)
    if not last.pid:
        reason = f"rank {last.rank} never started, and the others waited {limit:.0f} s for it"
        return Check(stage, Verdict.FAIL, reason=reason, remedy="see that every node starts its ranks", node=last.host)
    return Check(
        stage,
        Verdict.FAIL,
        reason=f"rank {last.rank} on {last.host} hangs {_place(last)}, while rank {ahead.rank} waits for it"
        f" ({limit:.0f} s)",
        remedy="see `nvidia-smi` and `dmesg` on this node; leave its GPU out with CUDA_VISIBLE_DEVICES to go on"
        if backend == "nccl"
        else f"see with `top` what else runs on this node; `--timeout {4 * limit:.0f}` gives the ranks more time",
        node=last.host,
        details=_tail(last.stack) or _tail(last.output),
    )


def _all_wait(stage: str, states: list[RankState], backend: str, limit: float) -> Check:
    first = min(states, key=lambda state: state.rank)
    remedy = (
        "try `NCCL_P2P_DISABLE=1 gpudoctor probe`, then `NCCL_SHM_DISABLE=1`: which one passes tells what is broken; "
        "`NCCL_DEBUG=INFO` shows the path that NCCL takes"
        if backend == "nccl"
        else "a firewall or the wrong interface may be in the way: set GLOO_SOCKET_IFNAME (`ip addr` lists them)"
    )
    return Check(
        stage,
        Verdict.FAIL,
        reason=f"all ranks hang {_place(first)} for {limit:.0f} s: the connection between them is stuck",
        remedy=remedy,
        details=_tail(first.stack),
    )


def _place(state: RankState) -> str:
    at = innermost(state.stack)
    what = f"at: {state.mark}" if state.mark else f"in {state.stage or 'its start'}"
    return f"{what} ({at})" if at else what


def innermost(stack: str) -> str:
    """`file.py:20 in name`, the innermost frame of the thread that trains, from what faulthandler writes."""
    # Other threads hold the log or the autograd engine; the one that works here has entered by our module.
    for thread in reversed(stack.split("\n\n")):
        if "gpudoctor/probe/rank_process.py" in thread or "probe/rank" in thread:
            found = re.search(r'File "(?:[^"]*/)?([^"/]+)", line (\d+) in (\S+)', thread)
            return f"{found[1]}:{found[2]} in {found[3]}" if found else ""
    return ""


def _tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:])
