"""The page of a run: whole, on its own, and honest about what was not seen."""

import json
import sys

import pytest
from test_trace import checked

from gpudoctor.diagnostic import Finding, Location, Related, Severity
from gpudoctor.record import replace
from gpudoctor.run.outcome import Suspicion, Watched
from gpudoctor.run.recording import Recording
from tests.support.html_reader import (
    HOSTILE,
    Reader,
    assert_complete_in_itself,
    assert_names_lead_somewhere,
    sizes_of_text,
)
from tests.support.installs import require, require_torch
from tests.support.made_runs import EVERY, PLACE, SCRIPT, healthy, hung, sick, watched
from tests.support.watching import TRAINING, plain, watch
from tests.tools import make_schema

pytest.importorskip("jinja2")

from pathlib import Path

from gpudoctor.run.page import page_of

require("matplotlib")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The pages of all runs that were made up."""
    return {name: page_of(make()) for name, make in EVERY.items()}


def text_of(page: str) -> str:
    """What can be read on it."""
    return " ".join(Reader(page).text.split())


@pytest.mark.parametrize("name", EVERY)
def test_it_is_html_and_complete_in_itself(pages: dict[str, str], name: str) -> None:
    assert_complete_in_itself(pages[name])
    assert_names_lead_somewhere(pages[name])
    assert sizes_of_text(pages[name]) <= {14.0}


def test_findings_are_beside_the_code(pages: dict[str, str]) -> None:
    text = text_of(pages["sick"])
    for finding in sick().found:
        assert f"{finding.code} {finding.name} {SCRIPT}:{finding.location.line}" in text
        assert finding.message in text
    assert '<ol class="code" start="6">' in pages["sick"]
    assert '<li class="here">    <mark>for x, y in loader:</mark></li>' in pages["sick"]
    assert "<pre>DataLoader(data, sampler=DistributedSampler(data))</pre>" in pages["sick"]
    assert text.index("GPU301") < text.index("GPU809")


def test_what_became_of_suspicions_is_told(pages: dict[str, str]) -> None:
    text = text_of(pages["sick"])
    assert "confirmed GPU301 no-distributed-sampler train.py:5" in text
    assert "cleared GPU501" in text
    assert "not reached GPU119" in text


def test_drawings_are_told_in_words(pages: dict[str, str]) -> None:
    reader = Reader(pages["sick"])
    assert reader.tags.count("svg") == 5
    told = "\n".join(reader.labels)
    assert "rank 5: data 80\N{NO-BREAK SPACE}ms, forward" in told
    assert "rank 0: median 115\N{NO-BREAK SPACE}ms, longest 515\N{NO-BREAK SPACE}ms" in told
    assert "Ranks 0 and 1 share most: 100\N{NO-BREAK SPACE}%" in told
    assert "AdamW: 2 of 4 tensors after step 64, and all before" in told
    assert "rank 6: 5\N{NO-BREAK SPACE}GiB after step 1, 19\N{NO-BREAK SPACE}GiB at the end" in told


def test_where_ranks_hang_stands_first(pages: dict[str, str]) -> None:
    text = text_of(pages["hung"])
    assert "Rank 0 waits in barrier number 17 at train.py:13 in train" in text
    assert text.index("did not advance") < text.index("What was seen")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("alone", "A single process shares its data with no other"),
        ("alone", "A single process has no parameters to compare"),
        ("healthy", "No rule saw a mistake in this run"),
        ("healthy", "Lint suspects no mistake in this program"),
        ("crashed", "RuntimeError: no such thing at train.py:9. No rule knows this error"),
        ("crashed", "No optimizer stepped, so that no step was timed"),
        ("hung", "were told apart by their content"),
        ("sick", "hosts, which run ahead of their GPUs"),
    ],
)
def test_what_is_not_there_is_said(name: str, why: str, pages: dict[str, str]) -> None:
    assert why in text_of(pages[name])


def test_what_was_not_done_is_said() -> None:
    assert "The program was not read beside the run" in text_of(page_of(replace(healthy(), linted=False)))
    assert "No process trained or made a process group" in text_of(page_of(watched(Recording(()))))


def test_hundreds_of_ranks_fit(pages: dict[str, str]) -> None:
    one = healthy().recording.ranks[0]
    many = Recording(tuple(replace(one, rank=rank, world=300) for rank in range(300)))
    page = page_of(watched(many))
    assert_complete_in_itself(page)
    assert "The first 32 ranks are compared" in text_of(page)
    assert len(page) < 2_000_000


def test_the_first_steps_of_a_short_run_are_in_no_median() -> None:
    one = healthy().recording.ranks[0]
    steps = [replace(one.steps[0], number=number, took=took) for number, took in enumerate((2.0, 1.0, 0.01, 0.02), 1)]
    page = page_of(watched(Recording((replace(one, steps=tuple(steps)),))))
    assert "rank 0: median 15\N{NO-BREAK SPACE}ms, longest 2\N{NO-BREAK SPACE}s" in "\n".join(Reader(page).labels)
    assert "0415 ms" in text_of(page), "rank 0, four steps, and the same median in the table"


def test_hostile_names_stay_text() -> None:
    place = replace(PLACE, path=HOSTILE)
    finding = Finding(
        HOSTILE, HOSTILE, Severity.ERROR, HOSTILE, place, f"{HOSTILE}\n    {HOSTILE}", (Related(HOSTILE, place),)
    )
    run = sick()
    ranks = tuple(
        replace(each, host=HOSTILE, main=HOSTILE, optimizers=(replace(each.optimizers[0], type=HOSTILE),))
        for each in run.recording.ranks
    )
    waiting = tuple(replace(each, place=place, function=HOSTILE) for each in hung().recording.hang)
    recording = replace(run.recording, ranks=(replace(ranks[0], faults=(HOSTILE,)), *ranks[1:]), hang=waiting)
    page = page_of(
        Watched(recording, (finding,), (Suspicion(finding, "confirmed"),), lambda at: [HOSTILE] * 20, linted=True)
    )
    page.encode("utf-8")
    reader = Reader(page)
    assert "script" not in reader.tags
    assert reader.tags.count("style") == 1
    assert "<script>alert(1)" in reader.text
    assert "{{ 7 * 7 }}" in reader.text
    assert not {"\x00", "\x1b", "\u202e"} & set(page)


def test_a_place_that_cannot_be_read_has_no_code() -> None:
    finding = replace(sick().found[0], location=Location("gone.py", 3))
    assert '<li class="here">' not in page_of(watched(Recording(()), [replace(finding, related=())]))


def test_a_page_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('started', 'w')\n")
    for target, told in ((".", "this is a folder"), ("none/page.html", "there is no folder `none`")):
        ended = plain(tmp_path, sys.executable, "-m", "gpudoctor", "run", "--html", target, "train.py")
        assert ended.returncode == 2
        assert told in ended.stderr
    assert not (tmp_path / "started").exists()


def test_a_real_run_writes_all_that_is_asked_for(tmp_path: Path) -> None:
    require_torch()
    jsonschema = pytest.importorskip("jsonschema")
    (tmp_path / "train.py").write_text(TRAINING.replace("    sampler.set_epoch(epoch)\n", ""))
    seen = watch(tmp_path, "--nproc-per-node", "2", "--html", "page.html", "--trace", "trace.json", "train.py")
    assert seen.status == 1
    jsonschema.Draft202012Validator(json.loads(make_schema.file_of("run").read_text())).validate(seen.report)
    assert seen.report["comparison"]["overlap"]["shares"] == [[1.0, 0.0], [0.0, 1.0]]
    assert [(each["step"], each["agreeing"]) for each in seen.report["comparison"]["agreement"]] == [
        (step, 2) for step in (1, 2, 4, 8)
    ]
    assert all(each["communication_seconds"] is not None for each in seen.report["timing"])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert_complete_in_itself(page)
    assert "confirmed GPU302 missing-set-epoch" in text_of(page)
    assert Reader(page).tags.count("svg") == 5
    events = checked((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {each["pid"] for each in events} == {0, 1}
    seen_parts = {each["name"] for each in events if each.get("cat") == "part"}
    assert seen_parts == {"data", "forward", "backward", "optimizer"}
    assert {each["name"] for each in events if each.get("cat") == "collective"} >= {"all_reduce"}
    left = {each.name for each in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"train.py", "page.html", "report.json", "trace.json"}
