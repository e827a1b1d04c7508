"""The proofs can be trusted: every claim can hold and can fail, and nothing outlives a proof.

The programs say in their headers which claims hold for them and which do not.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.ranks.process_tree import descendants
from tests.support.installs import require_torch

from . import claims
from .harness import DEADLINE, ROOT, Proof, Prover, Verdict, describe, parse, read_header, split_claims

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
HOLD_FOR_NOTHING = {"finishes", "silent-about"}
"""What may be said of a program that does nothing."""

pytestmark = pytest.mark.proof


def expected(script: Path, key: str) -> tuple[str, ...]:
    return split_claims(read_header(script).get(key, ""))


@pytest.mark.parametrize("proof", [*map(describe, PROGRAMS)], ids=lambda proof: proof.script.stem)
def test_claims_hold_and_fail_as_the_program_says(proof: Proof, verdict_of: Callable[[Proof], Verdict]) -> None:
    verdict = verdict_of(proof)
    holds = {claim: claims.judge(claim, verdict.run) for claim in expected(proof.script, "holds")}
    fails = {claim: claims.judge(claim, verdict.run) for claim in expected(proof.script, "fails")}
    wrong = {claim: why for claim, (holds, why) in holds.items() if not holds}
    wrong |= {claim: f"holds: {why}" for claim, (holds, why) in fails.items() if holds}
    assert not wrong, verdict.explain()


def test_every_claim_holds_somewhere_and_fails_somewhere() -> None:
    for key in ("holds", "fails"):
        seen = {claim.split()[0] for script in PROGRAMS for claim in expected(script, key)}
        assert claims.CLAIMS.keys() - seen == set(), key


def test_a_program_that_does_nothing_proves_nothing(prover: Prover, tmp_path: Path) -> None:
    run = prover.execute(write(tmp_path, "pass"))
    arguments = {"global-batch": "8", "reduces-per-backward": "1", "broadcasts-per-step": "0"}
    arguments |= {"silent-about": "text", "failure-hidden": "text"}
    holding = {name for name in claims.CLAIMS if claims.judge(f"{name} {arguments.get(name, '')}", run)[0]}
    assert holding == HOLD_FOR_NOTHING


def test_half_a_run_proves_nothing(prover: Prover) -> None:
    """A rank that has done all it should and then fails shows its failure and nothing else."""
    program = describe(Path(__file__).parent / "programs" / "all_well.py")
    run = prover.execute(program)
    failed = type(run.ranks[1])(**{**vars(run.ranks[1]), "status": 1, "stderr": "RuntimeError"})
    broken = type(run)((run.ranks[0], failed))
    holding = {claim.split()[0] for claim in expected(program.script, "holds") if claims.judge(claim, broken)[0]}
    assert holding == {"prints"}
    assert claims.judge("crash RuntimeError", broken)[0]


def test_ranks_have_the_environment_of_torchrun(prover: Prover, tmp_path: Path) -> None:
    names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR"
    run = prover.execute(write(tmp_path, f"import os; print(*(os.environ[name] for name in {names}))"))
    assert [rank.stdout.split() for rank in run.ranks] == [
        ["0", "0", "2", "2", "0", "127.0.0.1"],
        ["1", "1", "2", "2", "0", "127.0.0.1"],
    ]


def test_a_single_process_has_none_of_it(prover: Prover, tmp_path: Path) -> None:
    run = prover.execute(write(tmp_path, "# launch: single\nimport os; print('RANK' in os.environ)"))
    assert [rank.stdout.strip() for rank in run.ranks] == ["False"]


def test_a_folder_is_run_with_its_other_files(prover: Prover, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("SIZE = 3\n")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "data.py").write_text("ROWS = 4\n")
    run = prover.execute(
        write(tmp_path, "from model import SIZE\nfrom parts.data import ROWS\nprint(SIZE * ROWS, __name__)", "train.py")
    )
    assert {rank.stdout.strip() for rank in run.ranks} == {"12 __main__"}
    assert not any(tmp_path.rglob("__pycache__"))


def test_a_program_may_be_run_again_where_it_left_files(prover: Prover, tmp_path: Path) -> None:
    lines = "# launch: single", "# runs: 3", "from pathlib import Path", "mark = Path('mark')"
    program = write(tmp_path, "\n".join([*lines, "print(mark.exists())", "mark.touch()"]))
    assert prover.execute(program).ranks[0].stdout == "True\n"
    fails_again = write(tmp_path, "\n".join([*lines, "print(mark.exists())", "mark.touch(exist_ok=False)"]))
    assert claims.judge("crash FileExistsError", prover.execute(fails_again))[0]


def test_a_program_does_the_same_as_without_being_watched(prover: Prover, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        "# launch: single\n"
        "import sys, torch\n"
        "from torch.utils.data import DataLoader\n"
        "from torch.optim import Adam\n"
        "torch.manual_seed(7)\n"
        "model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(), torch.nn.Linear(4, 1))\n"
        "optimizer = Adam(model.parameters())\n"
        "for x in DataLoader(torch.randn(20, 3), batch_size=4, shuffle=True):\n"
        "    optimizer.zero_grad()\n"
        "    model(x).sum().backward()\n"
        "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "    optimizer.step()\n"
        "torch.save(model.state_dict(), 'model.pt')\n"
        "print([value.hex() for p in model.parameters() for value in p.flatten().tolist()])\n"
        "print(torch.rand(1).item().hex(), torch.initial_seed(), sys.argv[1:], __name__)\n"
        "sys.exit(5)\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    plain = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    (watched,) = prover.execute(describe(script)).ranks
    assert (watched.stdout, watched.stderr, watched.status) == (plain.stdout, plain.stderr, plain.returncode)


def test_unseeded_ranks_draw_numbers_of_their_own(prover: Prover, tmp_path: Path) -> None:
    """Forks of one process would all draw the same."""
    draws = "import random, numpy, torch\nprint(random.random(), numpy.random.rand(), torch.rand(1).item())"
    runs = [prover.execute(write(tmp_path, draws)) for _ in range(2)]
    assert len({number for run in runs for rank in run.ranks for number in rank.stdout.split()}) == 12


LEAVES_ORPHANS = """
import os
import pathlib
import subprocess
import time
import torch.multiprocessing as mp

orphans = [subprocess.Popen(["sleep", "600"], start_new_session=session).pid for session in (True, False)]
print(*orphans, flush=True)
# Where one ends early, the other is ended: it may not have come here yet.
begun = [pathlib.Path(__file__).with_name(f"begun-{rank}") for rank in range(2)]
begun[int(os.environ["RANK"])].touch()
while not all(each.exists() for each in begun):
    time.sleep(0.01)
"""


@pytest.mark.parametrize("end", ["", "import time; time.sleep(600)", "raise ValueError", "import os; os.abort()"])
def test_nothing_outlives_a_proof(prover: Prover, tmp_path: Path, end: str) -> None:
    run = prover.execute(write(tmp_path, LEAVES_ORPHANS + end), still=1.0)
    pids = [int(pid) for rank in run.ranks for pid in rank.stdout.split()]
    pids += [line["pid"] for rank in run.ranks for line in rank.of("process")]
    assert len(pids) == 6
    assert [pid for pid in pids if exists(pid)] == []


def test_a_program_that_never_ends_is_ended(prover: Prover, tmp_path: Path) -> None:
    began = time.monotonic()
    run = prover.execute(write(tmp_path, "while True: pass"), deadline=2.0)
    assert {rank.ending for rank in run.ranks} == {"out of time"}
    assert claims.judge("hang", run)[0]
    assert time.monotonic() - began < DEADLINE


def test_nothing_outlives_the_command(tmp_path: Path) -> None:
    """Killed outright, it can clean up nothing itself."""
    require_torch()
    program = tmp_path / "waits.py"
    program.write_text(
        f"# proof: hang\nimport time\nopen({str(tmp_path / 'started')!r}, 'w').close()\ntime.sleep(600)\n"
    )
    command = subprocess.Popen(
        [sys.executable, "-m", "tests.proofs", str(program)],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for((tmp_path / "started").exists)
        everybody = descendants(command.pid)
    finally:
        command.kill()
        command.wait()
    assert len(everybody) >= 4
    wait_for(lambda: not any(map(exists, everybody)))


def test_the_command_shows_claims_and_what_was_printed(tmp_path: Path) -> None:
    require_torch()
    program = write(tmp_path, "# proof: finishes; saved-once\nprint('seen')").script
    run = subprocess.run(
        [sys.executable, "-m", "tests.proofs", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    assert run.stderr == ""
    assert f"== {program}" in run.stdout
    assert "finishes: holds: rank 0 exited with status 0; rank 1 exited with status 0" in run.stdout
    assert "saved-once: DOES NOT HOLD" in run.stdout
    assert run.stdout.count("   seen") == 2
    assert run.stdout.endswith("0 of 1 proofs hold\n")


def test_the_command_lists_the_claims() -> None:
    require_torch()
    run = subprocess.run([sys.executable, "-m", "tests.proofs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert "parameters-differ        The parameters of the ranks are not the same" in run.stdout
    assert all(claim in run.stdout for claim in claims.CLAIMS)


def test_only_the_first_line_makes_a_proof(tmp_path: Path) -> None:
    assert parse(write(tmp_path, '"""A program."""\n# proof: crash').script) is None
    proof = parse(write(tmp_path, '# proof: crash "a: b"; hang\n# launch: spawn\n# arguments: --n 2\nx').script)
    assert (proof.claims, proof.launch, proof.arguments) == (('crash "a: b"', "hang"), "spawn", ("--n", "2"))


def write(folder: Path, text: str, name: str = "program.py") -> Proof:
    (folder / name).write_text(text)
    return describe(folder / name)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(happened: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)
