"""`explain`, `rules`, `env` and `plan`."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor import __version__, cli
from gpudoctor.cli import plan
from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.module import Module, WrapperKind
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import MakeLoader, MakeSampler
from gpudoctor.lint.events.event_context import EventContext, Loop
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.knowledge import Imprecision
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.events.training_step import OptimizerStep
from gpudoctor.lint.flow.condition import Atom, Condition, Divergence, Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.program import Program
from gpudoctor.plain import from_plain
from gpudoctor.probe.inventory import take
from gpudoctor.probe.inventory.facts import Driver, Inventory
from gpudoctor.probe.inventory.field import Absence, Field, absent, known
from gpudoctor.registry import find_rules
from gpudoctor.report.markdown import fenced, plain, with_difference
from gpudoctor.report.text import Style, written

PAGE = """An offence is made.

## What goes wrong
Each epoch replays the order of the first one; no error is raised, and training just sees less variety than it could.

## Bad

    for epoch in range(3):

        for batch in loader: ...

## Sources

- one source that is so long that it does not fit on a line of sixty cells
- another
"""

PLAIN = """GPU999 toy-offence

An offence is made.

What goes wrong
---------------

Each epoch replays the order of the first one; no error is
raised, and training just sees less variety than it could.

Bad
---

    for epoch in range(3):

        for batch in loader: ...

Sources
-------

- one source that is so long that it does not fit on a line
  of sixty cells
- another
"""


def test_a_page_in_plain_text() -> None:
    assert plain("GPU999 toy-offence", PAGE, Style(width=60)) == PLAIN


ALIKE = """An offence is made.

## Bad

    for epoch in range(3):

        train(loader)
    stop()

## Good

    for epoch in range(3):

        sampler.set_epoch(epoch)
        train(loader)
    stop()

## Fix
Tell it.
"""


def test_examples_that_are_alike_are_shown_as_their_difference() -> None:
    page = with_difference(ALIKE)
    shown = plain("GPU999 toy-offence", page, Style(width=60))
    assert (
        "Bad (-) and good (+)\n--------------------\n\n"
        "      for epoch in range(3):\n\n"
        "    +     sampler.set_epoch(epoch)\n"
        "          train(loader)\n"
        "      stop()\n\nFix\n"
    ) in shown
    assert "\x1b[32m    +     sampler.set_epoch(epoch)\x1b[0m\n" in written(
        plain("", page, Style(60, colour=True)).split("\n")
    )
    assert "```diff\n  for epoch in range(3):\n\n+     sampler.set_epoch(epoch)\n" in fenced(page)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("    stop()\n\n## Fix", "    other()\n    things()\n    here()\n    now()\n\n## Fix", id="unlike"),
        pytest.param("## Good", "## Better", id="one of them alone"),
    ],
)
def test_other_examples_stay_as_they_are(old: str, new: str) -> None:
    page = ALIKE.replace(old, new)
    assert page != ALIKE
    assert with_difference(page) == page


@pytest.mark.parametrize("rule", ["GPU001", "gpu001", "unreadable-file"])
def test_explain(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", rule]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"GPU001 unreadable-file (error, since 0.1)\n\n{find_rules().find(rule).summary}\n")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_explain_of_several_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "gpu00"]) == 0
    told = capsys.readouterr().out
    assert [line.split()[0] for line in told.splitlines() if line.startswith("  GPU")] == ["GPU001", "GPU002", "GPU003"]


def test_explain_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli.main(["explain", "GPU001"]) == 0
    text = capsys.readouterr().out
    assert "GPU001 unreadable-file" in text
    assert "##" not in text


def test_all_pages_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    for card in find_rules().cards:
        assert cli.main(["explain", card.name]) == 0
        assert "##" not in capsys.readouterr().out


def test_rules(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rules"]) == 0
    text = capsys.readouterr().out
    assert "  GPU001  error    unreadable-file\n" in text
    assert max(map(len, text.splitlines())) <= 80
    assert all(card.code in text for card in find_rules().cards)


def test_rules_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["rules", "--output-format=json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert document["rules"][1] == {
        "code": "GPU002",
        "name": "unused-suppression",
        "severity": "info",
        "family": "tool",
        "summary": find_rules().find("GPU002").summary,
        "since": "0.1",
        "fix": "safe",
        "shows_in_run": False,
    }


@pytest.mark.slow
def test_env(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("TORCH_TOKEN", "hush")
    monkeypatch.setenv("LOCAL_RANK", "3")
    monkeypatch.setenv("UNRELATED", "x")
    assert cli.main(["env", "--output-format=json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["version"], document["gpudoctor"]) == (1, __version__)
    assert document["python"] == platform.python_version()
    assert "torch" in document["packages"]
    assert document["gpus"] is None
    assert document["gpus_because"].startswith("not asked: ")
    environment = document["environment"]
    assert (environment["NCCL_DEBUG"], environment["LOCAL_RANK"]) == ("INFO", "3")
    assert environment["TORCH_TOKEN"] == "(hidden)"
    assert "UNRELATED" not in environment
    assert document["system"]["cpus"] == os.cpu_count()
    assert "host" not in document["system"]
    assert cli.main(["env"]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"^gpudoctor +{re.escape(__version__)}$", text, re.MULTILINE)
    assert "  NCCL_DEBUG=INFO\n      NCCL writes messages of level INFO\n" in text
    assert re.search(rf"^machine +{len(os.sched_getaffinity(0))} CPUs, memory ", text, re.MULTILINE)


@pytest.mark.slow
def test_env_doubts_values_and_names(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,0")
    monkeypatch.setenv("NCCL_P2P_DISABLED", "1")
    assert cli.main(["env"]) == 0
    text = capsys.readouterr().out
    assert "! '0' stands there twice: CUDA then shows no GPU at all: unset CUDA_VISIBLE_DEVICES\n" in text
    assert "! nothing reads this name: NCCL_P2P_DISABLE is meant" in text


@pytest.mark.slow
def test_env_asks_the_driver_and_torch_where_told_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Path(__file__).parents[2] / "fixtures" / "recordings" / "inventories" / "two-h100-cpu-torch.json"
    machine = from_plain(Inventory, json.loads(recording.read_text())["inventory"])
    monkeypatch.setattr(take, "take_inventory", lambda: machine)
    assert cli.main(["env", "--gpus"]) == 0
    text = capsys.readouterr().out
    assert "GPUs       2 x NVIDIA H100 80GB HBM3, 79.6 GiB, capability 9.0\n" in text
    assert "was built for the CPU, on a machine with 2 x NVIDIA H100" in " ".join(text.split())
    assert cli.main(["env", "--gpus", "--output-format=json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [point["name"] for point in document["weak_points"]] == ["cpu-only-torch"]
    assert document["inventory"]["gpus"][0]["name"] == "NVIDIA H100 80GB HBM3"
    assert "node-1" not in json.dumps(document), "the host's name stays at home"
    assert (document["gpus"], document["gpus_because"]) == (["NVIDIA H100 80GB HBM3"] * 2, "")


NO_DRIVER = absent("libnvidia-ml.so.1 is not there", Absence.NO_DRIVER)
HANGS = absent("NVML gave no answer within 20 s", Absence.TIMED_OUT)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "gpus"), [(known(0), []), (NO_DRIVER, []), (HANGS, None)])
def test_env_tells_no_gpu_from_not_known(
    count: Field[int], gpus: list[str] | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(take, "take_inventory", lambda: Inventory(driver=Driver(count=count)))
    assert cli.main(["env", "--gpus", "--output-format=json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["gpus"], document["gpus_because"]) == (gpus, count.why_not)


def test_env_loads_neither_torch_nor_a_driver() -> None:
    code = "from gpudoctor import cli; import sys; cli.main(['env']); print(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert not set(run.stderr.split()) & {"torch", "pynvml", "psutil", "gpudoctor.probe.results"}


def way(line: int, **more: object) -> EventContext:
    return EventContext(Location("train.py", line), **more)


def example() -> Program:
    here = Location("train.py", 1)
    rank = Rank(RankKind.LOCAL, RankSource.ENVIRONMENT)
    model = Module("m", here, "model")
    sampler = Sampler("s", here, "sampler", made_by="torch", distributed=True)
    loader = Loader("l", here, "loader", sampler=ValueSet.of(sampler), shuffle=ValueSet.of(Const(False)))
    epochs = Loop("e", Location("train.py", 9), times=3)
    batches = Loop("b", Location("train.py", 10), over=loader)
    first = Condition(frozenset({Literal(Atom("r0", Divergence.RANK, ranks="rank 0"), True)}))
    inside = {"loops": (epochs, batches)}
    log = (
        InitGroup(context=way(2), by="init_process_group", backend=ValueSet.of(Const("nccl"))),
        Wrap(
            context=way(3),
            wrapper=model,
            inner=model,
            kind=WrapperKind.DDP,
            model_device=ValueSet.of(Device("cuda", rank)),
        ),
        MakeSampler(context=way(4), sampler=sampler),
        MakeLoader(context=way(5), loader=loader),
        Forward(context=way(11, **inside), identity=1, module=model),
        Forward(context=way(11, **inside), identity=1, module=model),
        Forward(context=way(40), identity=2, module=model),
        OptimizerStep(context=way(12, **inside), optimizer=Unknown(Anonymous("o"), label="optimizer")),
        Collective(context=way(13, **inside), call="all_reduce"),
        Save(context=way(14, condition=first), call="torch.save", path=ValueSet.of(Const("m.pt"))),
        Imprecision(context=way(15), why="`hydra.compose` was not read"),
    )
    return Program(entry="train.py", world=LaunchWorld.TORCHRUN, log=log, files=frozenset({"train.py"}))


OUTLINE = """train.py, when torchrun starts one process per GPU
It was followed to its end.

Processes
  train.py:2  init_process_group, backend='nccl'

Wrapped models
  train.py:3  DistributedDataParallel around `model`, model on cuda:local rank

Data
  train.py:4  sampler `sampler`: each rank draws its shard
  train.py:5  loader `loader`, sampler=`sampler`, shuffle=False

Loops
  train.py:9   3 iterations
  train.py:10  over the batches of `loader`

Training
  train.py:11  forward of `model`
  train.py:12  step of `optimizer`

Collectives
  train.py:13  all_reduce

Files
  train.py:14  torch.save, path='m.pt' (rank 0 only)

Not followed
  train.py:15  `hydra.compose` was not read

"""


@pytest.fixture
def planned(write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    write(train="import torch\n")
    monkeypatch.setattr(plan, "programs_of", lambda *_: [example()])


@pytest.mark.usefixtures("planned")
def test_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "train.py"]) == 0
    assert capsys.readouterr().out == OUTLINE


@pytest.mark.usefixtures("planned")
def test_plan_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "train.py", "--output-format=json"]) == 0
    (program,) = json.loads(capsys.readouterr().out)["programs"]
    assert (program["entry"], program["world"], program["whole"], program["files"]) == (
        "train.py",
        "torchrun",
        True,
        ["train.py"],
    )
    assert program["coverage"]["followed"] == "whole"
    assert program["sections"]["Files"] == [
        {"text": "torch.save, path='m.pt'", "path": "train.py", "cell": None, "line": 14, "who": "rank 0 only"}
    ]


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("import torch\ndef step(loss): loss.backward()\n", "it only defines things"),
        (
            "import torch\ntable.update(train=1)\n",
            "it registers or prepares something when it is imported, and trains n",
        ),
    ],
)
def test_plan_says_why_a_file_is_no_program(
    text: str, because: str, write: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    write(pkg__part=text)
    Path("pkg/__init__.py").touch()
    assert cli.main(["plan", "pkg/part.py"]) == 0
    assert f"pkg/part.py: no program of its own, for {because}" in capsys.readouterr().out


@pytest.mark.usefixtures("planned")
@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("trian.py", "did you mean `train.py`?"),
        ("broken.py", "broken.py:1:"),
        ("train.ipynb", "train.ipynb:1:1: this is not a notebook"),
        ("notes.txt", "notes.txt: this is no Python file; name the one with which training is started"),
        (".", "gpudoctor: .: this is a folder; name the file with which training is started"),
    ],
)
def test_plan_of_what_cannot_be_read(script: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.py").write_text("(", encoding="utf-8")
    Path("train.ipynb").write_text("{}", encoding="utf-8")
    Path("notes.txt").write_text("hello", encoding="utf-8")
    assert cli.main(["plan", script]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("name", ["scaling", "frameworks"])
def test_a_guide_names_rules_that_there_are(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert cli.main(["explain", name]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[1:]
    named = set(re.findall(r"GPU\d{3}", said))
    assert named
    assert named <= {card.code for card in find_rules().cards}
