"""Programs that were cut at a limit, and how sure it is what was found in them."""

import re
from pathlib import Path
from textwrap import dedent

import pytest

from gpudoctor import cli
from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.lint.interp import execution_state
from gpudoctor.lint.results.merge import merged
from gpudoctor.record import replace
from gpudoctor.report.story import story
from tests.support.notebooks import notebook
from tests.support.told import CLEAN, TRAINING, Tell


@pytest.mark.parametrize("before", [True, False])
def test_a_limit(tell: Tell, before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    clean = dedent(CLEAN)
    imports, work = clean[: clean.index("model")], "x = 1\n" * 1_600
    told = tell("train.py", train=imports + work + clean if before else clean + work, engine=TRAINING)
    (program,) = told.document["programs"]
    assert program["followed"] == ("not" if before else "partly")
    assert "1500 statements" in program["ended_by"]["reason"]
    assert program["ended_by"]["line"] > 1
    told_by = next(line for line in told.lines if line.startswith("train.py: stopped at line "))
    where = "before the training" if before else "after the first training step"
    assert f"after 1,500 statements, {where}: " in f"{told_by}: "
    assert any(line.startswith("  help: `gpudoctor run train.py` watches") for line in told.lines)
    assert not [line for line in told.lines if "not followed to its end" in line]


BAD = Path(__file__).parents[3] / "fixtures/rules/data/missing_distributed_sampler/bad_page.py"


@pytest.mark.parametrize("before", [True, False])
def test_what_is_missing_before_a_limit_is_told(tell: Tell, before: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    page, work = BAD.read_text(), "x = 1\n" * 1_600
    found = tell("train.py", train=work + page if before else page + work).document["findings"]
    assert ("GPU301" in {each["code"] for each in found}) is not before


LEADER_FIRST = """
import torch, torch.distributed as dist
def fetch():
    if dist.get_rank() != 0:
        dist.barrier()
    {inside}
    if dist.get_rank() == 0:
        dist.barrier()
dist.init_process_group("nccl")
fetch()
torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
{behind}
"""


@pytest.mark.parametrize(
    ("inside", "behind", "alone"),
    [("\n    ".join(["x = 1"] * 1_600), "", False), ("return", "x = 1\n" * 1_600, True)],
    ids=["cut before the others call it", "cut behind it"],
)
def test_a_collective_whose_partner_a_limit_hides(
    tell: Tell, inside: str, behind: str, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    found = tell("train.py", train=LEADER_FIRST.format(inside=inside, behind=behind)).document["findings"]
    assert ("GPU501" in {each["code"] for each in found}) is alone


def test_a_step_of_an_environment_is_no_training(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    clean = dedent(CLEAN)
    plays = 'import gymnasium\nenv = gymnasium.make("Pendulum-v1")\nseen, *_ = env.step(env.action_space.sample())\n'
    imports, work = clean[: clean.index("model")], "x = 1\n" * 1_600
    told = tell("train.py", train=imports + plays + work + clean, engine=TRAINING)
    (program,) = told.document["programs"]
    assert program["followed"] == "not"
    assert any("after 1,500 statements, before the training: " in line for line in told.lines)


CHOOSES = """
    import argparse, torch
    import torch.distributed as dist
    from torch import nn
    from engine import train

    parser = argparse.ArgumentParser()
    parser.add_argument("--net", default="small")
    parser.add_argument("--launcher", default="none")
    args = parser.parse_args()
    if args.launcher == "pytorch":
        dist.init_process_group("nccl")
    if args.net == "small":
        model = nn.Linear(8, 1)
    else:
        WORK
        model = nn.Linear(8, 1)
    if args.launcher == "pytorch" and dist.get_rank() == 0:
        dist.barrier()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))
    """


def test_a_limit_on_account_of_what_an_option_can_be(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    told = tell("train.py", train=CHOOSES.replace("WORK", "x = 1; " * 1_600), engine=TRAINING)
    (program,) = told.document["programs"]
    assert (program["followed"], program["training_loops"] > 0) == ("partly", True)
    assert "1500 statements" in program["ended_by"]["reason"]
    assert any("and followed to its training with the defaults of its options" in line for line in told.lines)
    # What makes several processes of it is no choice among models.
    assert "GPU501" in {finding["code"] for finding in told.document["findings"]}


REGISTRY = """
    import torch, yaml
    from torch import nn
    from engine import train

    KNOWN = {}

    def register(function):
        KNOWN[function.__name__] = function
        return function

    NETS
    with open("settings.yaml") as file:
        name = yaml.safe_load(file)["net"]
    model = KNOWN[name]()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))
    """


def test_a_limit_on_account_of_many_functions_of_which_a_file_names_one(
    tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    made = "@register\ndef net_{}():\n    " + "x = 1; " * 400 + "\n    return nn.Linear(8, 1)\n"
    nets = "\n".join(made.format(number) for number in range(6))
    told = tell("train.py", train=dedent(REGISTRY).replace("NETS", nets), engine=TRAINING)
    (program,) = told.document["programs"]
    assert (program["followed"], program["training_loops"] > 0) == ("partly", True)
    assert "1500 statements" in program["ended_by"]["reason"]


CHAIN = """
    import torch, yaml
    from torch import nn
    from engine import train

    with open("settings.yaml") as file:
        name = yaml.safe_load(file)["net"]
    if name in ("small", "tiny"):
        WORK
        model = nn.Linear(8, 1)
    elif name == "wide":
        WORK
        model = nn.Linear(8, 2)
    elif name == "deep":
        WORK
        model = nn.Linear(8, 3)
    elif OTHER:
        WORK
        model = nn.Linear(8, 4)
    else:
        raise ValueError(name)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))
    """


@pytest.mark.parametrize(
    ("other", "followed"), [("name == 'flat'", "partly"), ("torch.cuda.device_count() == 7", "not")]
)
def test_a_limit_on_account_of_many_branches_of_which_a_file_names_one(
    tell: Tell, other: str, followed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    text = dedent(CHAIN).replace("WORK", "x = 1; " * 500).replace("OTHER", other)
    told = tell("train.py", train=text, engine=TRAINING)
    (program,) = told.document["programs"]
    assert (program["followed"], program["training_loops"] > 0) == (followed, followed == "partly")
    assert "1500 statements" in program["ended_by"]["reason"]


ALL_ON_ONE = """
    import os, torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    dist.init_process_group("nccl")
    model = DistributedDataParallel(nn.Linear(8, 1).to("cuda:0"))
    for _ in range(10):
        model(torch.randn(4, 8)).sum().backward()
    """


def test_what_is_found_in_a_program_that_was_cut_is_likely(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    for rest, confidence in (("", "definite"), ("x = 1\n" * 1_600, "likely")):
        found = tell("train.py", train=dedent(ALL_ON_ONE) + rest).document["findings"]
        assert [each["confidence"] for each in found if each["code"] == "GPU204"] == [confidence]


def test_doubt_is_told_and_ends_where_another_program_is_sure() -> None:
    sure = Finding("GPU204", "one-gpu", Severity.ERROR, "It is wrong.", Location("a.py", 3))
    doubted = replace(sure, doubt="The program was not followed to its end.")
    assert story(doubted) == ["It is wrong.", "The program was not followed to its end."]
    assert merged([doubted, sure]) == merged([sure, doubted]) == [sure]


def test_training_of_a_program_that_was_cut_is_not_told_again(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    clean = dedent(CLEAN)
    imports, work = clean[: clean.index("model")], "x = 1\n" * 1_600
    told = tell(train=imports + work + clean, engine=TRAINING)
    assert [line.split(":")[0] for line in told.lines if not line.startswith("  ")][:-1] == ["train.py"]


def test_a_program_that_was_cut_is_told_to_services_once(
    tell: Tell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    told = tell(train=dedent(CLEAN) + "x = 1\n" * 1_600, engine=TRAINING)
    assert [each["path"] for each in told.document["errors"]] == ["train.py"]
    for name in ("github", "gitlab", "sarif"):
        cli.main(["lint", "--no-cache", f"--output-format={name}", "."])
        assert len(re.findall("1,?500 statements", capsys.readouterr().out)) == 1


JOBS = """
    import torch
    import torch.multiprocessing as mp
    from torch import nn

    def job(number):
        layer = nn.Linear(8, 8).to("cuda:0")
        return layer

    if __name__ == "__main__":
        for number in range(4):
            mp.Process(target=job, args=(number,)).start()
    """


def test_processes_of_a_program_that_was_cut_need_be_no_ranks(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they make a process group was not seen."""
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    told = tell("train.py", train=dedent(JOBS) + "x = 1\n" * 1_600)
    assert told.document["programs"][0]["ended_by"] is not None
    assert "GPU204" not in {each["code"] for each in told.document["findings"]}
    together = JOBS.replace("layer = nn", "torch.distributed.init_process_group('nccl')\n        layer = nn")
    told = tell("train.py", train=dedent(together) + "x = 1\n" * 1_600)
    assert "GPU204" in {each["code"] for each in told.document["findings"]}


@pytest.mark.slow
def test_a_cell_that_cannot_be_read_in_a_notebook_that_trains_nothing(tell: Tell) -> None:
    Path("plots.ipynb").write_text(
        notebook("import torch\nx = torch.zeros(3)", "x = = 1", "print(x)"), encoding="utf-8"
    )
    told = tell("plots.ipynb")
    assert [each["code"] for each in told.document["findings"]] == ["GPU001"]
    assert not [line for line in told.lines if "stopped" in line]
    Path("train.ipynb").write_text(notebook(dedent(CLEAN), "x = = 1", "print(model)"), encoding="utf-8")
    told = tell("train.ipynb", engine=TRAINING)
    assert told.lines[0].startswith("train.ipynb: stopped at cell 2, line 1 (a cell cannot be read), after the first")
    assert not [line for line in told.lines if "gpudoctor run" in line], "nobody can run it so"
