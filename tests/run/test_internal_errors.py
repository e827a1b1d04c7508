"""An error of ours beside the job: it is told, and costs neither the job nor the report."""

from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from gpudoctor.registry import find_rules, load
from gpudoctor.run.hang import Watch
from gpudoctor.run.internal_errors import Faults
from gpudoctor.run.observe import Order, judged, observe
from gpudoctor.run.recording import Process, Recording
from gpudoctor.run.session import python_command


def broken(*_: object) -> None:
    raise KeyError("no such key")


@pytest.mark.slow
def test_the_job_goes_on_when_we_cannot_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Watch, "look", broken)
    done = tmp_path / "done"
    script = f"import time; time.sleep(0.7); open({str(done)!r}, 'w')"
    faults = Faults()
    recording = observe(Order((*python_command([], module=False, ranks=None), "-c", script)), print, faults)
    assert recording.status == 0
    assert done.exists()
    # Each look failed, and that is told once.
    (told,) = faults.told
    assert told.startswith("looking at the ranks: KeyError: 'no such key' at ")


def test_the_other_rules_are_asked_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cards = [card for card in find_rules().cards if card.shows_in_run]
    monkeypatch.setattr(type(load(cards[0])), "in_run", broken)
    faults = Faults()
    process = Process(pid=1, parent=0, rank=0, world=1, local_rank=0, host="a", main="train.py", torch="2")
    assert list(judged(Recording((process,)), cards, faults)) == []
    (told,) = faults.told
    assert told.startswith(f"{cards[0].code}: KeyError")


def test_what_clears_a_suspicion_is_said_of_a_recording() -> None:
    asked = {each for card in find_rules().cards if card.shows_in_run for each in load(card).shows_when}
    assert {"ended_well", "ranks.saves", "ranks.optimizers.sharded"} < asked
    unknown = []
    for path in asked:
        kind: Any = Recording
        for name in path.removeprefix("not ").partition(" > ")[0].split("."):
            member = vars(kind).get(name)
            getter = getattr(member, "func", getattr(member, "fget", None))
            kind = get_type_hints(getter)["return"] if getter else get_type_hints(kind).get(name)
            kind = get_args(kind)[0] if get_origin(kind) is tuple else kind
        unknown += [path] if kind is None else []
    assert not unknown
