"""The JSON of a run: what is in it, and that it holds to its documented form."""

import json
from typing import Any

import pytest

from gpudoctor.cli.run_report import document
from gpudoctor.cli.run_report import report as reported
from gpudoctor.report.text import Style
from gpudoctor.run.outcome import Watched, what_ran
from gpudoctor.run.recording import Process, Recording
from tests.support.made_runs import EVERY, alone, healthy, hung, sick, watched
from tests.tools import make_schema

pytestmark = pytest.mark.slow

jsonschema = pytest.importorskip("jsonschema")


def _validator() -> Any:
    schema = json.loads(make_schema.file_of("run").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def report(watched: Watched) -> dict[str, Any]:
    """What `--output-format json` writes."""
    found: dict[str, Any] = json.loads(document(watched))
    return found


@pytest.mark.parametrize("name", EVERY)
def test_reports_hold_to_the_schema(name: str) -> None:
    _validator().validate(report(EVERY[name]()))


def test_what_does_not_hold() -> None:
    found = report(healthy())
    for wrong in ({"ranks": [{"rank": 0}]}, {"timing": None}, {"version": 2}):
        assert not _validator().is_valid({**found, **wrong})
    # What a later version adds does not disturb.
    assert _validator().is_valid({**found, "more": 1})


def test_communication_is_told_apart_from_the_backward_on_a_cpu() -> None:
    timing = report(healthy())["timing"][0]
    assert timing["communication_seconds"] == pytest.approx(0.003, rel=0.01)
    assert timing["backward_seconds"] == pytest.approx(0.093, rel=0.01)
    assert timing["host_to_device_seconds"] is None
    parts = ("data", "forward", "backward", "communication", "optimizer", "other")
    assert sum(timing[f"{part}_seconds"] for part in parts) == pytest.approx(timing["step_seconds"], rel=0.05)


def test_clocks_of_a_gpu_and_of_its_host_are_not_mixed() -> None:
    timing = report(sick())["timing"][0]
    assert timing["communication_seconds"] is None
    assert timing["exposed_communication_seconds"] == pytest.approx(0.003)
    assert timing["backward_seconds"] == pytest.approx(0.096)


def test_the_table_for_people_fits_a_terminal() -> None:
    for make in EVERY.values():
        lines = list(reported(make(), Style(width=80)))
        assert all(len(line) <= 80 for line in lines)
    text = " ".join(" ".join(reported(sick(), Style(width=80))).split())
    assert "rank steps ms/step data forward backward optimizer other" in text
    assert "0 5000 115.00 3% 10% 83% 2% 1%" in text
    assert "2,226 samples/s over all ranks; at most 21 GiB in a rank; watching took 0.2% of the time" in text
    assert "communication that the backward did not hide took up to 3.00 ms of a step" in text


def test_ranks_that_share_data_and_parameters_that_differ() -> None:
    comparison = report(sick())["comparison"]
    assert comparison["overlap"]["unit"] == "samples"
    assert comparison["overlap"]["shares"][0][:3] == [1.0, 1.0, 0.0]
    seen = {each["step"]: each["agreeing"] for each in comparison["agreement"]}
    assert (seen[32], seen[64], seen[200]) == (4, 2, 2)


def test_what_was_not_compared_is_said() -> None:
    comparison = report(alone())["comparison"]
    assert (comparison["overlap"], comparison["agreement"]) == (None, [])
    assert "a single process" in comparison["no_overlap_because"]
    assert "a single process" in comparison["no_agreement_because"]


def test_a_node_with_one_rank_of_several_is_not_taken_for_a_process_alone() -> None:
    rank = Process(1, 0, 1, 2, 0, "b", "train.py", "2", node=1, on_node=1, backend="gloo")
    one = watched(Recording((rank,)))
    told = report(one)["comparison"]
    assert told["no_overlap_because"] == told["no_agreement_because"]
    assert told["no_overlap_because"].startswith("this is the only rank of its node")
    assert what_ran(one.recording).startswith("1 of 2 ranks (gloo), those of this node, made 0 steps")


def test_batches_without_places_are_told_apart_by_their_content() -> None:
    found = report(hung())["comparison"]["overlap"]
    assert (found["unit"], found["shares"]) == ("batches", [[1.0, 1.0], [1.0, 1.0]])


def test_ranks_that_met_in_no_group_have_no_backend() -> None:
    ranks = tuple(Process(pid, 0, pid, 2, pid, "a", "train.py", "2", on_node=2) for pid in (0, 1))
    assert what_ran(Recording(ranks)).startswith("2 ranks made 0 steps")
