"""`gpudoctor lint --try`: run the programs that something is suspected of, and say what became of each suspicion.

A program runs on two virtual GPUs for a few steps, shut off from the network and from what it could change, and no
longer than a limit; nothing that it has started outlives it. Its own lint beside it is what the suspicions are held
against.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gpudoctor.cli.output import say
from gpudoctor.diagnostic import Severity
from gpudoctor.errors import UsageError
from gpudoctor.ranks.process_tree import ON_LINUX
from gpudoctor.ranks.sandbox import NO_SANDBOX
from gpudoctor.ranks.scratch import scratch
from gpudoctor.ranks.starting import module_command
from gpudoctor.run.outcome import CLEARED, CONFIRMED, NOT_REACHED
from gpudoctor.trials import SeenMistake, TriedProgram, TriedSuspicion

if TYPE_CHECKING:
    from pathlib import Path

    from gpudoctor.lint.request import Outcome

SECONDS = 180.0
"""How long a program may run."""
_STEPS = 3
_GPUS = 2
_HANGS_AFTER = 20
_MOST = 8
"""Programs that are tried at a time; the others are named."""
_TOO_MANY = f"more than {_MOST} programs"
_BY_LAUNCHER = "torchrun"


def refuse_no_trial() -> None:
    """Fail before the work where nothing could be tried."""
    if not ON_LINUX:
        raise UsageError("--try isolates programs as only Linux can; `gpudoctor lint` without it works here")
    if find_spec("torch") is None:
        raise UsageError("--try runs the programs: install torch for the Python that gpudoctor runs with")


def try_programs(outcome: Outcome, arguments: str) -> tuple[TriedProgram, ...]:
    """Run what is suspected. `arguments` are those of the programs, as for a shell."""
    suspected = {each.location.path for each in outcome.findings if each.severity.weight >= Severity.WARNING.weight}
    worlds = {each.path: each.world for each in outcome.programs if each.path.endswith(".py")}
    # One that is alone is behind all that was found, also in what it imports.
    programs = [path for path in worlds if path in suspected or (suspected and len(worlds) == 1)]
    tried = [_tried(path, worlds[path], shlex.split(arguments)) for path in programs[:_MOST]]
    return (*tried, *(_not_tried(path, worlds[path], _TOO_MANY) for path in programs[_MOST:]))


def tell_trials(trials: Sequence[TriedProgram], outcome: Outcome) -> None:
    """Say on standard error what came of each program."""
    for trial in trials:
        if trial.because != _TOO_MANY:
            say(*_told(trial))
    if left := [trial.path for trial in trials if trial.because == _TOO_MANY]:
        say(f"gpudoctor: not tried, being more than {_MOST}: {', '.join(left)}")
    if not trials and any(each.severity.weight >= Severity.WARNING.weight for each in outcome.findings):
        say("gpudoctor: nothing was tried: no program that could be started has a finding")


def _told(trial: TriedProgram) -> Iterator[str]:
    if not trial.ran:
        yield f"gpudoctor: {trial.path} could not be tried: {trial.because}"
        return
    confirmed = sum(each.state == CONFIRMED for each in trial.suspicions)
    yield (
        f"gpudoctor: tried {trial.path} on {trial.gpus} virtual GPUs: {confirmed} of {len(trial.suspicions)} suspicions"
        f" {'is' if confirmed == 1 else 'are'} confirmed{f'; {trial.ended}' if trial.ended else ''}"
    )
    for each in trial.suspicions:
        yield f"  {each.state:<12} {each.code} {each.path}:{each.line}"
    for seen in trial.seen:
        yield f"  {'seen':<12} {seen.code} {seen.path}:{seen.line}: {seen.message}"


def _tried(path: str, world: str, arguments: Sequence[str]) -> TriedProgram:
    report, trouble = _run(path, world, arguments)
    if report is None:
        return _not_tried(path, world, trouble)
    known = {each["code"] for each in report["suspicions"]}
    return TriedProgram(
        path=path,
        world=world,
        ran=True,
        because="",
        gpus=_GPUS,
        steps=max((each["steps"] for each in report["ranks"]), default=0),
        ended=_ending(report),
        suspicions=tuple(
            TriedSuspicion(each["code"], each["path"], each["line"], state)
            for state in (CONFIRMED, CLEARED, NOT_REACHED)
            for each in report["suspicions"]
            if each["state"] == state
        ),
        seen=tuple(
            SeenMistake(each["code"], each["path"], each["line"], each["message"])
            for each in report["findings"]
            if each["code"] not in known
        ),
    )


def _not_tried(path: str, world: str, because: str) -> TriedProgram:
    return TriedProgram(path, world, ran=False, because=because, gpus=_GPUS, steps=0, ended="", suspicions=(), seen=())


def _ending(report: Mapping[str, Any]) -> str:
    """How the program ended, where not as a healthy one."""
    if report["cannot_be_tried"]:
        return f"it ended at {report['cannot_be_tried']}, which takes a GPU"
    if error := report["ended_with"]:
        text = " ".join(error["text"].split())
        return f"it ended with {error['type']}: {text[:160]}"
    if report["hang"]:
        return "its ranks hung"
    if report["status"] and not any(each["steps"] for each in report["ranks"]):
        return f"it ended with exit code {report['status']} before its first step (`--try-arguments` gives it options)"
    return ""


def _run(path: str, world: str, arguments: Sequence[str]) -> tuple[dict[str, Any] | None, str]:
    """The report of a watched run, or why there is none."""
    with scratch("gpudoctor-try-") as folder:
        target = folder / "out" / "report.json"
        watched = (
            *(f"--virtual-gpus={_GPUS}", f"--steps={_STEPS}", f"--hang-after={_HANGS_AFTER}", "--kill-on-hang"),
            *("--output-format=json", f"--output-file={target}"),
        )
        program = (path, *arguments) if world == _BY_LAUNCHER else ("--", sys.executable, path, *arguments)
        command = [
            *module_command("gpudoctor.ranks.sandbox", str(folder)),
            *module_command("gpudoctor", "run", *watched, *program),
        ]
        ended, words = _within_limit(command)
        if ended == NO_SANDBOX and not target.exists():
            return None, f"this machine cannot isolate a process ({words.strip()})"
        if ended is None:
            return None, f"it had not ended after {SECONDS:.0f} s"
        return _read(target), words.strip().rpartition("\n")[2] or f"exit code {ended}"


def _within_limit(command: Sequence[str]) -> tuple[int | None, str]:
    """The exit code, None where the time was not enough, and what was written to standard error."""
    # Where nobody can write, nothing can be kept for the next start either.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
        start_new_session=True,
    ) as child:
        try:
            _, words = child.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            _end_all(child.pid)
            child.communicate()
            return None, ""
        # Where the machine gives it no processes of its own, something of it may still run.
        _end_all(child.pid)
        return child.returncode, words


def _end_all(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _read(target: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found
