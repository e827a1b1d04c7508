"""Ranks that end, or leave a loop or an iteration of it, before the others: what they did last tells, without lint."""

from pathlib import Path

import pytest

from gpudoctor.cli.run_report import compared
from gpudoctor.diagnostic import Finding, Location, Related, Severity
from gpudoctor.record import replace
from gpudoctor.registry import find_rules, load
from gpudoctor.run.outcome import unexplained
from gpudoctor.run.recording import Failure, Process, Recording, Step
from gpudoctor.run.recording.call_counts import Subgroup
from gpudoctor.run.recording.process_ends import Crash, Fatal, StackFrame, Terminated
from tests.support.installs import require_torch
from tests.support.made_runs import healthy
from tests.support.watching import ENDED, TRAINING, watch

require_torch()
PLACE = Location("train.py", 30, 5)
LOOP = "    for x, y in loader:\n"
FOURTH = "        if dist.get_rank() == 1 and epoch == 1 and len(seen) == 6:\n"
COUNTED = TRAINING.replace("for epoch in range(2):", "seen = []\nfor epoch in range(2):").replace(
    LOOP, LOOP + "        seen.append(epoch)\n"
)
ROUNDS = (
    "import torch\nimport torch.distributed as dist\n\ndist.init_process_group('gloo')\n"
    "for round in range(4 - dist.get_rank()):\n    dist.all_reduce(torch.ones(1))\n"
)


@pytest.mark.parametrize(
    ("program", "code", "part"),
    [
        (COUNTED + FOURTH + "            break\n", "GPU503", "loss.backward()"),
        (
            COUNTED.replace("        loss.backward", FOURTH + "            continue\n        loss.backward"),
            "GPU503",
            "loss.backward()",
        ),
        (ROUNDS, "GPU517", "all_reduce"),
    ],
    ids=["leaves the loop", "skips an iteration", "makes fewer rounds"],
)
def test_a_rank_that_ends_before_the_others(program: str, code: str, part: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(program)
    watched = watch(tmp_path, "--no-lint", "--nproc-per-node", "2", "train.py")
    assert watched.status
    line = next(number for number, text in enumerate(program.splitlines(), 1) if part in text)
    assert [(each["code"], each["line"]) for each in watched.report["findings"]] == [(code, line)]


def test_a_rank_that_does_something_else_after_it_has_left_the_loop(tmp_path: Path) -> None:
    """It may be slow, but comes to no iteration of that loop any more."""
    busy = "import time\nwhile dist.get_rank() == 1:\n    time.sleep(0.1)\n"
    program = f"{COUNTED}{FOURTH}            break\n{busy}"
    (tmp_path / "train.py").write_text(program)
    watched = watch(tmp_path, "--no-lint", "--hang-after", "4", "--kill-on-hang", "--nproc-per-node", "2", "train.py")
    line = next(number for number, text in enumerate(program.splitlines(), 1) if "loss.backward()" in text)
    assert [(each["code"], each["line"]) for each in watched.report["findings"]] == [("GPU503", line)]


def test_a_rank_that_leaves_the_loop_and_meets_the_others_in_another_collective(tmp_path: Path) -> None:
    """Gloo ends it there, and the others lose it in the backward."""
    program = f"{COUNTED}{FOURTH}            break\ndist.all_reduce(torch.ones(1))\n"
    (tmp_path / "train.py").write_text(program)
    watched = watch(tmp_path, "--no-lint", "--nproc-per-node", "2", "train.py")
    line = next(number for number, text in enumerate(program.splitlines(), 1) if "loss.backward()" in text)
    assert [(each["code"], each["line"]) for each in watched.report["findings"]] == [("GPU503", line)]


def test_numbers_of_another_dtype_in_as_many_bytes(tmp_path: Path) -> None:
    given = "torch.ones(4, dtype=torch.float64) if dist.get_rank() == 0 else torch.ones(8)"
    program = f"{ENDED}\ndist.all_reduce({given})\n"
    (tmp_path / "train.py").write_text(program)
    watched = watch(tmp_path, "--no-lint", "--nproc-per-node", "2", "train.py")
    assert [each["code"] for each in watched.report["findings"]] == ["GPU518"]
    assert "rank 0 gives float64 and rank 1 float32" in watched.report["findings"][0]["message"]


def _made(*of_all: bool) -> Recording:
    """A run of two ranks that went well, in which rank 0 made these groups, and rank 1 none."""
    step = Step(number=1, optimizer=0, at=0.0, took=1.0, spans={}, counts={}, memory=None, cost=0.0)
    groups = tuple(Subgroup(1, PLACE, each) for each in of_all)
    rank = Process(
        pid=1, parent=0, rank=0, world=2, local_rank=0, host="a", main="train.py", torch="2", steps=(step,),
        subgroups=groups,
    )  # fmt: skip
    return Recording((rank, replace(rank, rank=1, local_rank=1, subgroups=())))


def test_a_group_of_one_rank_that_all_make() -> None:
    """What rank 0 would make alone as well, rank 1 has to call where it is no member."""
    run = _made(False)
    both = replace(run, ranks=(run.ranks[0], replace(run.ranks[1], subgroups=(Subgroup(1, PLACE, of_all=True),))))
    assert not [*load(next(card for card in find_rules().cards if card.code == "GPU508")).in_run(both)]


@pytest.mark.parametrize(("of_all", "found"), [((True,), True), ((False,), False), ((), False)])
def test_a_group_that_some_ranks_make(of_all: tuple[bool, ...], found: bool) -> None:
    card = next(card for card in find_rules().cards if card.code == "GPU508")
    told = [(each.location, each.message) for each in load(card).in_run(_made(*of_all))]
    assert [place for place, _ in told] == [PLACE] * found
    assert all("Rank 0 made this group" in message for _, message in told)


def test_a_group_that_one_of_two_ranks_makes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which it is no member: nobody waits, and the run ends well, but where torch is asked to wait for all."""
    monkeypatch.setenv("TORCH_DIST_INIT_BARRIER", "0")
    program = ENDED.replace("optimizer =", "if dist.get_rank() == 0:\n    dist.new_group([1])\noptimizer =")
    (tmp_path / "train.py").write_text(program)
    watched = watch(tmp_path, "--no-lint", "--nproc-per-node", "2", "train.py")
    line = next(number for number, text in enumerate(program.splitlines(), 1) if "new_group" in text)
    assert [(each["code"], each["line"]) for each in watched.report["findings"]] == [("GPU508", line)]


PEER = "[pair.cc:553] Connection closed by peer [127.0.0.1]:4506"


def _crashed(error: str) -> Recording:
    """The same two ranks, of which rank 0 ended with this error, and rank 1 told nothing of its end."""
    run = _made()
    crash = Crash("RuntimeError", error, 1, (StackFrame(PLACE, "main", own=True),))
    return replace(run, ranks=(replace(run.ranks[0], crash=crash), run.ranks[1]), status=1)


@pytest.mark.parametrize(("code", "untold"), [("GPU320", True), ("GPU503", False)])
def test_an_error_is_told_beside_findings_that_do_not_explain_it(code: str, untold: bool) -> None:
    found = Finding(code, "a-rule", Severity.WARNING, "It is so.", PLACE)
    assert compared(_crashed(PEER), (found,), None, find_rules()).error_untold is untold


def test_a_rank_that_native_code_ended_before_the_others_knew() -> None:
    """What they received fitted them, and their launcher has ended them."""
    run = _made()
    aborted = replace(run.ranks[1], fatal=Fatal("Aborted", (StackFrame(PLACE, "main", own=True),)))
    ended = replace(run, ranks=(run.ranks[0], aborted), status=1)
    found = Finding("GPU320", "a-rule", Severity.WARNING, "It is so.", PLACE)
    assert compared(ended, (found,), None, find_rules()).error_untold
    assert "Rank 1 had been ended by native code (Aborted) at train.py:30: gloo does so" in unexplained(ended)


@pytest.mark.parametrize(("at", "how"), [(None, "killed from outside"), (7.0, "as SIGTERM told it to")])
def test_who_ended_at_a_signal_of_ours_was_not_killed_for_memory(at: float | None, how: str) -> None:
    assert how in unexplained(replace(_crashed(PEER), told_to_end=at))


def test_who_was_ended_by_its_launcher_was_not_killed_for_memory() -> None:
    run = _crashed(PEER)
    ended = replace(run.ranks[1], terminated=Terminated((StackFrame(PLACE, "main", own=True),)))
    assert "Rank 1 had been ended by SIGTERM, which launchers" in unexplained(replace(run, ranks=(run.ranks[0], ended)))


def test_who_went_on_after_the_signal_was_killed_for_it() -> None:
    run = _crashed(PEER)
    steps = tuple(replace(run.ranks[0].steps[0], number=number, at=7.0 + number) for number in range(1, 30))
    run = replace(run, ranks=(run.ranks[0], replace(run.ranks[1], steps=steps)), told_to_end=7.0)
    assert "Rank 1 had been killed before, for it went on after SIGTERM." in unexplained(run)


def test_a_rank_that_caught_the_loss_of_another_did_not_wait_where_it_ended() -> None:
    """Both ended in one call, which only one of them had called with the other's help."""
    here = (StackFrame(PLACE, "main", own=True),)
    run = _crashed(PEER)
    dead = replace(run.ranks[1], fatal=Fatal("Aborted", here))
    sizes = load(next(card for card in find_rules().cards if card.code == "GPU518"))
    rounds = load(next(card for card in find_rules().cards if card.code == "GPU503"))
    at_once = replace(run, ranks=(run.ranks[0], dead))
    assert [each.location for each in sizes.in_run(at_once)] == [PLACE]
    backward = Location("train.py", 20, 5)
    caught = replace(run.ranks[0], failures=(Failure("RuntimeError", PEER, 1, 0.0, backward),), backward=backward)
    left = replace(run, ranks=(caught, dead), suspected=frozenset({"GPU503"}))
    assert list(sizes.in_run(left)) == []
    (found,) = rounds.in_run(left)
    assert "rank 0 in the averaging of gradients" in found.message


@pytest.mark.parametrize(("batches", "epochs", "told"), [(200, 1, True), (180, 1, False), (200, 2, False)])
def test_a_rank_that_ends_after_fewer_epochs(batches: int, epochs: int, told: bool) -> None:
    """Each time it has gone through its loader to the end, as the other rank has."""
    like = healthy().recording.ranks[0].passes[0]
    begun = replace(like, number=2, batches=1, backwards=0, ended=False)
    frames = (StackFrame(PLACE, "main", own=True), StackFrame(Location("torch/autograd/graph.py", 3), "run", own=False))
    crash = Crash("RuntimeError", PEER, 1, frames)
    run = _crashed(PEER)
    waits = replace(run.ranks[0], crash=crash, passes=(like, begun))
    ended = replace(run.ranks[1], over=True, passes=(replace(like, batches=batches),) * epochs)
    rule = load(next(card for card in find_rules().cards if card.code == "GPU503"))
    found = [each.message for each in rule.in_run(replace(run, ranks=(waits, ended)))]
    assert ["rank 1 had ended after fewer epochs" in each for each in found] == [True] * told


@pytest.mark.parametrize(("inside", "waits"), [("autograd/graph.py", True), ("nn/modules/linear.py", False)])
def test_a_rank_that_its_launcher_ended_before_it_missed_the_other(inside: str, waits: bool) -> None:
    """It stood in the backward, which is a wait, or computed."""
    own = StackFrame(PLACE, "main", own=True)
    stood = Terminated((own, StackFrame(Location(f"/lib/torch/{inside}", 3), "run", own=False)))
    aborted = Fatal("Aborted", (StackFrame(Location("train.py", 40, 5), "main", own=True),))
    run = _made()
    run = replace(run, ranks=(replace(run.ranks[0], terminated=stood), replace(run.ranks[1], fatal=aborted)), status=1)
    rule = load(next(card for card in find_rules().cards if card.code == "GPU503"))
    found = [each.message for each in rule.in_run(replace(run, suspected=frozenset({"GPU503"})))]
    assert ["rank 0 in the averaging of gradients" in each for each in found] == [True] * waits


def test_a_wait_in_a_helper_is_told_where_lint_finds_it() -> None:
    """Who calls the helper on one rank acts there; a line that only led to a finding is none."""
    caller = Location("train.py", 40, 5)
    stack = tuple(StackFrame(place, "f", own=True) for place in (Location("train.py", 50), caller, PLACE))
    run = _crashed(PEER)
    crash = replace(run.ranks[0].crash, frames=stack)
    run = replace(run, ranks=(replace(run.ranks[0], crash=crash), replace(run.ranks[1], fatal=Fatal("Aborted", ()))))
    rule = load(next(card for card in find_rules().cards if card.code == "GPU501"))
    led = Related("here", Location("train.py", 50))
    lint = Finding("GPU501", "a-rule", Severity.ERROR, "It is so.", caller, related=(led,))
    (found,) = rule.in_run(run.beside([lint]))
    assert found.location == caller
    assert PLACE in [each.location for each in found.related]


def test_who_left_by_itself_is_told_with_the_line() -> None:
    run = _crashed(PEER)
    left = replace(run.ranks[1], over=True, left=Location("train.py", 41))
    assert "Rank 1 had left by `sys.exit` at train.py:41." in unexplained(replace(run, ranks=(run.ranks[0], left)))
