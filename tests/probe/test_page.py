"""The page of a probe: whole, on its own, and honest about what is not there."""

import os
import subprocess
import sys

import pytest

from gpudoctor.probe.compare import compare
from gpudoctor.probe.results import (
    Check,
    Fact,
    Interval,
    ProbedMachine,
    ProbedVariable,
    ProbeReport,
    Utilisation,
    Verdict,
)
from gpudoctor.record import replace
from tests.support.html_reader import (
    HOSTILE,
    Reader,
    assert_complete_in_itself,
    assert_names_lead_somewhere,
    sizes_of_text,
)
from tests.support.installs import require
from tests.tools.make_recordings import FOLDER, healthy, made_up, no_gpu, one_gpu, slow_gpu

pytest.importorskip("jinja2")

from pathlib import Path

from gpudoctor.probe.page import page_of, words

require("matplotlib")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The pages of all recordings, and one of a comparison."""
    compared = replace(slow_gpu(), comparison=compare(healthy(), slow_gpu(), "old.json"))
    return {"compared": page_of(compared), **{name: page_of(report) for name, report in made_up().items()}}


NAMES = ["compared", *made_up()]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_html_and_complete_in_itself(pages: dict[str, str], name: str) -> None:
    assert_complete_in_itself(pages[name])


@pytest.mark.parametrize("name", NAMES)
def test_names_on_it_are_unique_and_lead_somewhere(pages: dict[str, str], name: str) -> None:
    assert_names_lead_somewhere(pages[name])


@pytest.mark.parametrize("name", made_up())
def test_every_check_is_on_it(pages: dict[str, str], name: str) -> None:
    text = Reader(pages[name]).text
    for check in made_up()[name].checks:
        assert check.name in text
        assert check.verdict.value in text
        assert check.reason.replace("`", "") in text
        assert check.remedy.replace("`", "") in text


def test_drawings_are_told_in_words(pages: dict[str, str]) -> None:
    reader = Reader(pages["probe_slow_gpu.json"])
    assert reader.tags.count("svg") == 7
    told = "\n".join(reader.labels)
    assert "DDP: 98\N{NO-BREAK SPACE}% on 1" in told
    assert "all_reduce reaches 11.4 GB/s" in told
    assert "GPU 5 41 %" in told
    assert "41 % !" in reader.text


def test_drawings_follow_the_page(pages: dict[str, str]) -> None:
    page = pages["probe_healthy_8_gpus.json"]
    assert "var(--series-1)" in page
    assert "#00fe" not in page
    assert sizes_of_text(page) == {14.0}


@pytest.mark.parametrize(
    ("report", "why"),
    [
        (no_gpu(), "Speed was not judged: there is no GPU"),
        (no_gpu(), "Bandwidth was not judged: there is no GPU"),
        (no_gpu(), "Utilisation was not sampled: there is no GPU"),
        (no_gpu(), "not available: libnvidia-ml.so.1 is not there"),
        (one_gpu(), "Scaling was not judged: the ranks share one GPU"),
        (replace(healthy(), steps=healthy().steps[:1]), "Nothing was trained on more than one device"),
        (one_gpu(), "Bandwidth was not judged: the ranks share one GPU"),
        (replace(one_gpu(), steps=()), "Utilisation was not sampled: nothing was trained"),
        (ProbeReport(machine=()), "Nothing was trained"),
        (ProbeReport(machine=()), "No inventory was taken"),
        (ProbeReport(machine=(), notes=("torch is not installed",)), "Nothing was trained: torch is not installed"),
    ],
)
def test_what_is_not_there_is_said(report: ProbeReport, why: str) -> None:
    assert why in Reader(page_of(report)).text


def test_an_epoch_of_the_real_files_is_in_the_table(pages: dict[str, str]) -> None:
    text = " ".join(Reader(pages["probe_healthy_8_gpus.json"]).text.split())
    assert "CIFAR-10 CNN, an epoch of the real files" in text
    assert "DDP on 8 GPUs 4.1 s 5.6 70 %" in text


def test_a_rank_that_has_the_shared_gpu_to_itself_is_judged(pages: dict[str, str]) -> None:
    text = " ".join(Reader(pages["probe_one_gpu.json"]).text.split())
    assert "1 GPU 13.7 min 1 100 %" in text
    assert "DDP, 2 ranks on one GPU not judged not judged not judged" in text


def test_a_gpu_without_samples_is_no_bug() -> None:
    report = healthy()
    steps = tuple(replace(row, utilisation=(Utilisation("GPU-x", None),)) for row in report.steps)
    assert "Utilisation was not sampled: NVML is missing" in page_of(replace(report, steps=steps))


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ([str(cpu) for cpu in range(192)], "0-191"),
        (["0", "1", "2", "5", "7", "8"], "0-2, 5, 7-8"),
        (["[0, 1, 2, 3]", "[4, 5, 6, 7]"], "0-3; 4-7"),
        (["0", "1"], "0, 1"),
        (["nccl", "gloo", "2"], "nccl, gloo, 2"),
        ([], ""),
    ],
)
def test_long_lists_of_numbers_are_short(found: list[str], shown: str) -> None:
    assert words.value(Fact(found)) == shown


def test_an_interval_that_is_wider_than_its_figure() -> None:
    assert words.interval(Interval(156.0, 0.0, 412.3, 3)) == "156, 0 to 412"
    assert words.interval(Interval(156.0, 150.0, 162.0, 9)) == "156.0 ± 6.0"


def test_checks_that_were_skipped_for_one_reason_are_one_row(pages: dict[str, str]) -> None:
    page, skipped = pages["probe_no_gpu.json"], no_gpu().not_judged
    assert len(skipped) < len([each for each in no_gpu().checks if each.verdict is Verdict.SKIPPED])
    assert page.count('class="is-skipped"') == len(skipped)


def test_hostile_names_stay_text() -> None:
    fact = {"name": Fact(HOSTILE), "version": Fact(None, HOSTILE), "list": Fact([HOSTILE])}
    report = slow_gpu()
    node = report.machine[0]
    report = replace(
        report,
        machine=(
            ProbedMachine(
                HOSTILE,
                tuple(replace(gpu, uuid=HOSTILE + gpu.uuid, facts={**gpu.facts, **fact}) for gpu in node.gpus),
                (),
                {HOSTILE: Fact(HOSTILE)},
                fact,
                (ProbedVariable(HOSTILE, HOSTILE, HOSTILE),),
                (Check(HOSTILE, Verdict.WARN, reason=HOSTILE, remedy=f"`{HOSTILE}`"),),
            ),
        ),
        checks=(Check(*(HOSTILE,), Verdict.FAIL, 1.0, *(HOSTILE,) * 7),),
        notes=(HOSTILE,),
        backend=HOSTILE,
        device=HOSTILE,
        steps=tuple(replace(row, workload=HOSTILE, strategy=row.strategy + HOSTILE) for row in report.steps),
        bandwidth=tuple(replace(row, collective=HOSTILE) for row in report.bandwidth),
    )
    page = page_of(report)
    page.encode("utf-8")
    reader = Reader(page)
    assert "script" not in reader.tags
    assert reader.tags.count("style") == 1
    assert "<script>alert(1)" in reader.text
    assert "{{ 7 * 7 }}" in reader.text
    assert not {"\x00", "\x1b", "\u202e"} & set(page)


def test_the_command_writes_it(tmp_path: Path, repository: Path) -> None:
    old, new = (str(FOLDER / f"probe_{name}.json") for name in ("healthy_8_gpus", "slow_gpu"))
    command = [
        sys.executable,
        "-m",
        "gpudoctor",
        "probe",
        "--from",
        new,
        "--compare",
        old,
        "--html",
        str(tmp_path / "page.html"),
    ]
    # Neither what a user has set for his own drawings nor a home that cannot be written may show.
    settings = tmp_path / "matplotlibrc"
    settings.write_text("text.usetex: True\nfont.size: 40\n")
    surroundings = {**os.environ, "MATPLOTLIBRC": str(settings), "HOME": str(tmp_path / "none" / "home")}
    run = subprocess.run(
        command, env=surroundings, cwd=repository, capture_output=True, text=True, check=False, timeout=600
    )
    assert run.returncode == 1, run.stderr
    assert run.stderr == ""
    assert "ddp-efficiency: pass -> fail" in run.stdout
    assert {each.name for each in tmp_path.iterdir()} <= {"page.html", "matplotlibrc", "none"}
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "worse" in page
    assert sizes_of_text(page) == {14.0}


def test_libraries_are_loaded_for_a_page_only() -> None:
    code = (
        "import sys; from gpudoctor.cli import main\n"
        f"main(['probe', '--from', {str(FOLDER / 'probe_no_gpu.json')!r}])\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert not {"matplotlib", "jinja2", "torch", "numpy"} & set(run.stderr.split())


def test_bandwidths_that_say_nothing_are_not_shown() -> None:
    """Those of a CPU were measured, and stand in the JSON."""
    table, of_cpu = "by nccl-tests", replace(healthy(), device="cpu")
    assert table in page_of(of_cpu)
    unjudged = tuple(replace(row, meaningful=False) for row in of_cpu.bandwidth)
    assert table not in page_of(replace(of_cpu, bandwidth=unjudged))
