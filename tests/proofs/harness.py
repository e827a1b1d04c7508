"""Start the ranks of a proof, wait for them within limits, and judge the claim.

A proof is a program whose first line is `# proof: CLAIM [; CLAIM]`. Further comment lines at its top may say how it is
launched (`# launch: torchrun|spawn|single|two-nodes`), what it is given (`# arguments: --epochs 2`), and how often it
is launched in the same folder (`# runs: 2`, for what is seen when training resumes). `# requires: accelerate` names
libraries that it takes besides torch: where one is not installed, it is skipped.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpudoctor.ranks.loopback import free_port
from tests.support.ranks import rank_environment

from . import claims, record

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ".fixed.py"
"""What a program is fixed to stands beside it."""
WORLD_SIZE = 2
AT_ONCE = 3
"""Proofs at a time: a group that stands still takes no core."""
DEADLINE = 60.0
STILL = 4.0
AFTER_FAILURE = 1.5
SLACK = 15.0
"""Seconds for the guardian to end and clean up after its own deadline."""


@dataclass(frozen=True)
class Proof:
    """One program and what its run must show."""

    script: Path
    claims: tuple[str, ...]
    launch: str = "torchrun"
    arguments: tuple[str, ...] = ()
    runs: int = 1
    requires: tuple[str, ...] = ()
    """Libraries that it takes besides torch, by the names under which they are imported."""
    own_port: bool = False
    """The program chooses the port itself."""

    @property
    def folder(self) -> Path | None:
        """The folder of a program of several files."""
        return self.script.parent if self.script.name == "train.py" else None

    @property
    def missing(self) -> tuple[str, ...]:
        """The libraries that it takes and that are not installed."""
        return tuple(name for name in self.requires if not _is_installed(name))


@cache
def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@dataclass(frozen=True)
class Verdict:
    """What the run of a proof showed."""

    proof: Proof
    run: record.Run
    judged: tuple[tuple[str, bool, str], ...]

    @property
    def holds(self) -> bool:
        return all(holds for _, holds, _ in self.judged)

    def explain(self) -> str:
        """The claims with their evidence, and the end of what each process printed."""
        shown = 4 if self.holds else 30
        parts = [f"{claim}: {'holds' if holds else 'DOES NOT HOLD'}: {why}" for claim, holds, why in self.judged]
        for process in self.run.processes:
            parts.append(f"-- {self.run.name(process)}: {process.ending}, status {process.status}")
            parts += [f"   {line}" for line in process.stdout.splitlines()[-shown:]]
            parts += [f"   ! {line}" for line in process.stderr.splitlines()[-shown:]]
        return "\n".join(parts)


def parse(script: Path) -> Proof | None:
    """The proof that `script` carries, if its first line has one."""
    return describe(script) if script.read_bytes().startswith(b"# proof:") else None


def describe(script: Path) -> Proof:
    """How `script` is run, and what is claimed of it."""
    header = read_header(script)
    launch = header.get("launch", "torchrun")
    return Proof(
        script=script.resolve(),
        claims=split_claims(header.get("proof", "")),
        launch=launch,
        arguments=tuple(shlex.split(header.get("arguments", ""))),
        runs=int(header.get("runs", "1")),
        requires=tuple(header.get("requires", "").split()),
        own_port=launch == "spawn" or any(sign in script.read_text("utf-8") for sign in ('MASTER_PORT"]', "tcp://")),
    )


def read_header(script: Path) -> dict[str, str]:
    """The `# key: value` lines at the top of `script`; a key that is repeated continues its value."""
    header: dict[str, str] = {}
    for line in script.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        key, colon, value = (part.strip() for part in line[2:].partition(":"))
        if colon:
            header[key] = f"{header[key]}; {value}" if key in header else value
    return header


def split_claims(text: str) -> tuple[str, ...]:
    """The claims in one line of a header."""
    return tuple(claim.strip() for claim in text.split(";") if claim.strip())


class Prover:
    """Runs proofs in processes forked from one that has imported torch. Several threads may ask at once."""

    def __init__(self) -> None:
        quiet = {
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MKL_NUM_THREADS": "1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        self._environment = {**_without_ranks(os.environ), **quiet, "PYTHONUNBUFFERED": "1"}
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.proofs.zygote"],
            cwd=ROOT,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._done: set[str] = set()
        self._news = threading.Condition()
        if self._zygote.stdout.readline().strip() != "ready":
            raise RuntimeError("the process that forks the ranks did not start")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End the zygote; its guardians and their ranks die with it."""
        self._zygote.stdin.close()
        self._zygote.wait(120)
        self._reader.join(120)
        self._zygote.stdout.close()

    def __enter__(self) -> Prover:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def prove(self, proof: Proof) -> Verdict:
        """Run the program and judge its claims; once more if a port was taken in between."""
        run = self.execute(proof)
        if "EADDRINUSE" in run.stderr or "address already in use" in run.stderr.lower():
            run = self.execute(proof)
        return Verdict(proof, run, tuple((claim, *claims.judge(claim, run)) for claim in proof.claims))

    def execute(self, proof: Proof, deadline: float = DEADLINE, still: float = STILL) -> record.Run:
        """Run the program, as often as it says; return what its processes did the last time, or when it failed."""
        limits = {"deadline": deadline, "still": still, "after_failure": AFTER_FAILURE}
        with tempfile.TemporaryDirectory(prefix="gpudoctor-proof-") as name, _ports(proof):
            program = _copy(proof, Path(name) / "program")
            for number in range(proof.runs):
                run = self._execute_once(proof, program, Path(name) / f"run-{number}", limits)
                if not run.ended_well:
                    break
            return run

    def _execute_once(self, proof: Proof, program: Path, folder: Path, limits: dict[str, float]) -> record.Run:
        (folder / record.RECORDING).mkdir(parents=True)
        request = {
            "program": str(program),
            "script": proof.script.name,
            "launch": proof.launch,
            "arguments": proof.arguments,
            "requires": proof.requires,
            "limits": limits,
            "environments": [{**self._environment, **extra} for extra in _environments(proof.launch)],
        }
        (folder / "request.json").write_text(json.dumps(request))
        started = time.monotonic()
        self._ask(folder, limits["deadline"] + SLACK)
        outcome = json.loads((folder / "outcome.json").read_text())
        return record.read(folder, outcome, time.monotonic() - started)

    def _ask(self, folder: Path, seconds: float) -> None:
        with self._news:
            self._zygote.stdin.write(f"{folder}\n")
            self._zygote.stdin.flush()
            if not self._news.wait_for(lambda: str(folder) in self._done, timeout=seconds):
                raise TimeoutError(f"no outcome of {folder} after {seconds} s")

    def _read(self) -> None:
        for line in self._zygote.stdout:
            with self._news:
                self._done.add(line.strip())
                self._news.notify_all()


def _copy(proof: Proof, folder: Path) -> Path:
    if proof.folder is None:
        folder.mkdir()
        shutil.copy(proof.script, folder)
    else:
        shutil.copytree(proof.folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _environments(launch: str) -> list[dict[str, str]]:
    if launch in ("spawn", "single"):
        return [{}]
    if launch not in ("torchrun", "two-nodes"):
        raise ValueError(f"unknown launch: {launch}")
    port = free_port()
    per_node = 1 if launch == "two-nodes" else WORLD_SIZE
    return [rank_environment(rank, WORLD_SIZE, port, ranks_per_node=per_node) for rank in range(WORLD_SIZE)]


def _without_ranks(environment: os._Environ[str]) -> dict[str, str]:
    ours = (*rank_environment(0, 1, 0), "PYTHONWARNINGS", "TORCH_DISTRIBUTED_DEBUG")
    return {key: value for key, value in environment.items() if key not in ours}


@contextlib.contextmanager
def _ports(proof: Proof) -> Iterator[None]:
    """Programs that choose their port themselves mostly choose the same one: they take turns on this machine."""
    if not proof.own_port:
        yield
        return
    with (Path(tempfile.gettempdir()) / "gpudoctor-proofs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
