"""How it is told: in how many lines, in which order, to services, by `plan`, and with which exit code."""

import json
from pathlib import Path
from textwrap import dedent

import pytest

from gpudoctor import cli
from gpudoctor.coverage import Cause, Coverage, Followed, Silence
from gpudoctor.diagnostic import Location
from gpudoctor.report.silence import MOST_LINES, silence
from tests.support.told import ACCELERATE, ANOTHER_WAY, CLEAN, LIGHTNING, RAISES, TRAINING, Tell


def test_rules_that_were_not_checked_beside_programs_that_were_not_followed(tell: Tell) -> None:
    told = tell(tool=RAISES, prepared=ACCELERATE, engine=TRAINING)
    assert told.lines[-1] == (
        "No mistake found in 2 of 3 files by the rules that were checked; 1 was not followed to the end."
    )


def test_rules_that_were_not_checked_for_another_reason_are_counted_as_well(tell: Tell) -> None:
    text = dedent("""
        import torch
        import torch.distributed as dist
        from torch.distributed.pipelining import PipelineStage
        from elsewhere import build

        dist.init_process_group("nccl")
        stage = PipelineStage(build(), 0, 2, torch.device("cuda"))
        build().backward()
    """)
    told = tell(train=text)
    causes = [set(each["rules"]) for each in told.document["programs"][0]["silent_for"]]
    others = set.union(*causes) - causes[0]
    assert others
    ending = f": {len(causes[0])} rules were not checked, and {len(others)} more for other reasons"
    assert [line.endswith(ending) for line in told.lines if line.startswith("train.py")] == [True]


@pytest.mark.slow
def test_many_programs_take_a_handful_of_lines(tell: Tell) -> None:
    many = {f"train_{n}": ANOTHER_WAY.replace("train", f"train{n}") for n in range(40)}
    engine = "import torch\n" + "".join(
        f"def train{n}(model, optimizer, x):\n    model(x).sum().backward()\n    optimizer.step()\n" for n in range(40)
    )
    told = tell(**many, engine=engine)
    assert len(told.lines) <= 7
    assert "36 more programs likewise; `--verbose` names all" in told.lines
    assert told.lines[-1] == "No mistake found in 1 of 41 files; 40 were not followed to the end."
    assert sum(line.startswith("train_") for line in tell(".", "--verbose").lines) == 40


def test_what_is_counted_as_not_followed_is_named() -> None:
    place = Location("run.py", 3)
    held = [
        Coverage(f"ranks_{n}.py", "torchrun", Followed.PARTLY, weight=3, trains_at=(place,), silent_for=(each,))
        for n, each in enumerate(Silence(Cause.FRAMEWORK, ("GPU101",), f"Kit{n}", place) for n in range(MOST_LINES))
    ]
    ended = Silence(Cause.ENDED, ("GPU101",), "raise SystemExit", place, missed=True)
    lines = silence([*held, Coverage("run.py", "single", Followed.NOT, weight=2, silent_for=(ended,))])
    assert [line.split(":")[0] for line in lines[:4]] == [
        "ranks_0.py",
        "ranks_1.py",
        "ranks_2.py",
        "  help for these 3",
    ]
    assert lines[4].startswith("run.py: every path that was followed ends at line 3")
    assert lines[-1] == "2 more programs likewise; `--verbose` names all"


def test_loops_that_train_models_that_are_not_known_are_alike() -> None:
    programs = [
        Coverage(
            f"ranks_{n}.py", "torchrun", Followed.PARTLY, weight=3,
            silent_for=(Silence(Cause.UNKNOWN_MODEL, ("GPU101",), "a model", Location(f"ranks_{n}.py", n + 1)),),
        )
        for n in range(9)
    ]  # fmt: skip
    assert silence(programs)[0].startswith("ranks_0.py and 8 more: the training at line 1 was followed, but the model")


def test_services_are_told_in_one_note(tell: Tell, capsys: pytest.CaptureFixture[str]) -> None:
    tell(train=LIGHTNING, tool=RAISES, engine=TRAINING)
    formats = {}
    for name in ("github", "gitlab", "sarif", "rdjson", "junit"):
        assert cli.main(["lint", "--no-cache", f"--output-format={name}", "."]) == 0
        formats[name] = capsys.readouterr().out
    (command,) = [line for line in formats["github"].splitlines() if line.startswith("::notice ")]
    assert command.startswith("::notice file=tool.py,title=gpudoctor%3A not all was followed::tool.py: every path ")
    assert "%0Atrain.py: Lightning runs the training at line 14: " in command
    (issue,) = json.loads(formats["gitlab"])
    assert (issue["check_name"], issue["severity"], issue["location"]["path"]) == ("not-followed", "info", "tool.py")
    assert "Lightning runs the training" in issue["description"]
    (diagnostic,) = json.loads(formats["rdjson"])["diagnostics"]
    assert (diagnostic["severity"], diagnostic["location"]["path"]) == ("INFO", "tool.py")
    assert "Lightning runs the training" in diagnostic["message"]
    assert '<testcase classname="tool.py" name="not all was followed">' in formats["junit"]
    assert 'tests="2" failures="0" errors="0" skipped="1"' in formats["junit"]
    (run,) = json.loads(formats["sarif"])["runs"]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["level"] == "note"
    assert told["message"]["text"].startswith("tool.py: every path ")
    assert run["results"] == []


def test_services_are_told_nothing_of_a_clean_program(tell: Tell, capsys: pytest.CaptureFixture[str]) -> None:
    tell(train=CLEAN, engine=TRAINING)
    for name, expected in (("github", ""), ("gitlab", "[]\n")):
        cli.main(["lint", "--no-cache", f"--output-format={name}", "."])
        assert capsys.readouterr().out == expected


@pytest.mark.parametrize("setting", [False, True])
def test_what_was_not_followed_may_fail_the_command(tell: Tell, setting: bool) -> None:
    arguments = [] if setting else ["--fail-on=not-followed"]
    if setting:
        Path("gpudoctor.toml").write_text("fail-on = 'not-followed'\n", encoding="utf-8")
    assert tell(*arguments, ".", train=CLEAN, engine=TRAINING).code == 0
    assert tell(*arguments, "train.py", train=LIGHTNING).code == 1
    assert tell("--fail-on=perf", "train.py").code == 0


def test_plan_shows_the_same_in_full(tell: Tell, capsys: pytest.CaptureFixture[str]) -> None:
    told = tell("train.py", train=RAISES, engine=TRAINING)
    assert cli.main(["plan", "train.py"]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "Its training was not reached." in page
    assert "every path that was followed ends at line 12, before the training: `raise ValueError(" in page
    (silent,) = told.document["programs"][0]["silent_for"]
    assert f"could not judge it: {' '.join(silent['rules'])}" in page
    assert cli.main(["plan", "--output-format=json", "train.py"]) == 0
    assert json.loads(capsys.readouterr().out)["programs"][0]["coverage"] == told.document["programs"][0]


def test_results_that_were_kept_tell_the_same(
    tell: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(tmp_path / "kept"))
    first = tell(train=RAISES, engine=TRAINING, tool=ACCELERATE, light=LIGHTNING)
    for _ in range(2):
        cli.main(["lint", "--output-format=json", "."])
        out, err = capsys.readouterr()
        assert (json.loads(out)["programs"], err.splitlines()) == (first.document["programs"], first.lines)


RANKS = """
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    import registry

    dist.init_process_group("nccl")
    model = DistributedDataParallel(registry.model())
    registry.loss(model).backward()
    """


def test_what_weighs_most_comes_first_and_help_says_what_it_is_for(tell: Tell) -> None:
    engines = {f"engine{number}": TRAINING.replace("10", f"{number}0") for number in range(1, 6)}
    told = tell(ranks=RANKS, one=ANOTHER_WAY, two=ANOTHER_WAY, engine=TRAINING, **engines)
    first, helped, second, helped_second = told.lines[:4]
    assert first.startswith("ranks.py: the training at line 8 was followed, but the model that it trains is not known")
    assert helped == "  help: `gpudoctor run ranks.py` watches the training itself, whichever model it is"
    assert second.startswith("one.py and 1 more: no call that was followed leads to the training at engine.py:8")
    assert helped_second.startswith("  help: if another script starts the training")
    assert told.lines[4].startswith("engine1.py and 4 more: no program calls the training")


def test_help_for_several_lines_says_so(tell: Tell) -> None:
    other = ANOTHER_WAY.replace("from engine", "from motor")
    told = tell(one=ANOTHER_WAY, two=other, engine=TRAINING, motor="\n" + dedent(TRAINING))
    assert [line.split(":")[0] for line in told.lines[:3]] == ["one.py", "two.py", "  help for these 2"]
    assert "`gpudoctor run SCRIPT`" in told.lines[2]
