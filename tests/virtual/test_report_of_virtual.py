"""What a run on virtual GPUs says of itself, and what it leaves out."""

import json
import subprocess
import sys

from gpudoctor.cli.run_report import document, report
from gpudoctor.diagnostic import Severity
from gpudoctor.record import replace
from gpudoctor.registry import find_rules
from gpudoctor.report.text import Style
from gpudoctor.run.internal_errors import Faults
from gpudoctor.run.observe import judged
from gpudoctor.run.outcome import what_ran
from gpudoctor.run.recording.call_counts import Compiled
from tests.support import made_runs


def test_speed_and_memory_are_left_out() -> None:
    real = made_runs.sick()
    virtual = replace(real, recording=replace(real.recording, virtual=True))
    text = " ".join(" ".join(report(virtual, Style())).split())
    assert "on virtual GPUs made" in text
    assert "Speed and memory were not looked at." in text
    assert "ms/step" not in text
    assert "samples/s" not in text
    told = json.loads(document(virtual))
    assert told["virtual"] is True
    assert (told["timing"], told["samples_per_second"]) == ([], None)
    assert json.loads(document(real))["virtual"] is False


def test_what_was_not_compiled_is_said() -> None:
    real = made_runs.sick().recording
    asked = replace(real, ranks=tuple(replace(each, compiled=(Compiled(None),)) for each in real.ranks))
    told = "what `torch.compile` is given runs eagerly here"
    assert told in what_ran(replace(asked, virtual=True))
    assert told not in what_ran(asked)
    assert told not in what_ran(replace(real, virtual=True))


def test_rules_of_speed_are_not_asked() -> None:
    recording = made_runs.sick().recording
    cards = find_rules().cards
    slow = {each.code for each in judged(recording, cards, Faults()) if each.severity is Severity.PERF}
    assert slow
    virtual = {each.code for each in judged(replace(recording, virtual=True), cards, Faults())}
    assert virtual == {each.code for each in judged(recording, cards, Faults())} - slow


def test_a_plain_run_loads_nothing_of_it() -> None:
    code = (
        "import sys; import gpudoctor.cli.run, gpudoctor.run.observe, gpudoctor.run.startup_agent; "
        "print([each for each in sys.modules if each.startswith('gpudoctor.virtual')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
