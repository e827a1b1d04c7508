"""What was not followed is told: which program, why, at which line, what would help. A clean one says no word more."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from gpudoctor import cli
from gpudoctor.coverage import Cause
from gpudoctor.diagnostic import Confidence, Finding, Location, Severity
from gpudoctor.lint.analyses import forward_body
from gpudoctor.lint.events.event_context import EventContext
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.flow.condition import ALWAYS
from gpudoctor.lint.interp import execution_state
from gpudoctor.lint.pipeline import lint
from gpudoctor.lint.program import LaunchWorld, Program
from gpudoctor.lint.request import Request
from gpudoctor.lint.results.merge import merged
from gpudoctor.record import replace
from gpudoctor.registry import find_rules
from gpudoctor.report.silence import silence
from gpudoctor.report.story import story
from tests.support.fixture_marks import label_of
from tests.support.notebooks import notebook

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

TRAINING = """
    import torch
    from torch import nn

    def train(model, optimizer, x):
        for _ in range(10):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    """
CLEAN = """
    import torch
    from torch import nn
    from engine import train
    model = nn.Linear(8, 1)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))
    """
ANOTHER_WAY = """
    import sys, torch
    from torch import nn
    from engine import train
    import registry

    def main():
        model = nn.Linear(8, 1)
        registry.find("train")(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))

    registry.start(main)
    """
RAISES = """
    import argparse, torch
    from torch import nn
    from engine import train

    class Settings:
        variant = "7b"

    def sizes(variant):
        if variant == "1b":
            return 8
        raise ValueError(f"{variant} is not supported")

    model = nn.Linear(sizes(Settings.variant), 1)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))
    """
ENDING_RANKS = """
    import torch.multiprocessing as mp

    def worker(rank, name):
        if name not in ("resnet", "vgg"):
            raise ValueError(name)
        from engines import trainer
        trainer().train()

    if __name__ == "__main__":
        mp.spawn(worker, args=("vit",), nprocs=4)
    """
LIGHTNING = """
    import lightning as L
    import torch
    from torch import nn

    class Net(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def training_step(self, batch, index):
            return self.layer(batch).sum()

    L.Trainer(max_epochs=3).fit(Net())
    """
ACCELERATE = """
    import torch
    from accelerate import Accelerator
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    accelerator = Accelerator()
    loader = DataLoader(TensorDataset(torch.zeros(64, 8)), batch_size=8, shuffle=True, num_workers=2)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for (x,) in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        optimizer.step()
    """
HELPERS = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def forward(self, x):
            return self.layer(x)
    """
EVALUATION = """
    import torch
    from engine import nn
    model = nn.Linear(8, 1).eval()
    with torch.no_grad():
        print(model(torch.randn(4, 8)))
    """


NOT_READ = {
    "GPU101/good_unread_library.py",
    "GPU104/good_perhaps_wrapped.py",
    "GPU104/good_unwrap.py",
    "GPU106/good_separate_helpers.py",
    "GPU120/good_reptile.py",
    "GPU202/good_kept_in_a_library_object.py",
    "GPU203/good_batch_objects.py",
    "GPU213/good_score_on_the_cpu.py",
    "GPU214/good_decorator_from_elsewhere.py",
    "GPU401/good_helpers_of_libraries.py",
    "GPU401/good_made_by_a_module_that_is_not_here.py",
    "GPU401/good_world_size_to_unread_helper.py",
    "GPU403/good_address_from_outside.py",
    "GPU501/good_start_from_a_checkpointer.py",
    "GPU606/good_saved_by_a_library.py",
    "GPU704/good_optimizer_of_many_ways.py",
    "GPU801/good_model_on_cpu.py",
}
"""Good programs, with no framework in charge, of which something was not read or not followed."""


class Told:
    """What one run of lint has said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.lines = code, err.splitlines()
        self.document: dict[str, Any] = json.loads(out)

    @property
    def programs(self) -> dict[str, str]:
        return {each["path"]: each["followed"] for each in self.document["programs"]}

    @property
    def silent(self) -> dict[str, list[tuple[str, int | None]]]:
        programs = self.document["programs"]
        return {each["path"]: [(one["cause"], one["line"]) for one in each["silent_for"]] for each in programs}


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """Lints files in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def tell_of(*arguments: str, **files: str) -> Told:
        for name, text in files.items():
            Path(f"{name}.py").write_text(dedent(text), encoding="utf-8")
        code = cli.main(["lint", "--output-format=json", "--no-cache", *(arguments or ["."])])
        return Told(code, *capsys.readouterr())

    return tell_of


Tell = Callable[..., Told]


def test_a_clean_program_says_no_word_more(tell: Tell) -> None:
    told = tell(train=CLEAN, engine=TRAINING, nets=HELPERS)
    assert told.lines == ["No mistake found in 3 files."]
    assert told.document["programs"] == [
        {
            "path": "train.py",
            "world": "single",
            "followed": "whole",
            "training_loops": 1,
            "ended_by": None,
            "silent_for": [],
        }
    ]


@pytest.mark.slow
def test_nothing_is_told_of_good_fixtures_that_were_followed() -> None:
    rules = FIXTURES / "rules"
    cards, told = find_rules().select(), set()
    for path in sorted(rules.glob("*/*/good_*.py")):
        programs = lint(Request(paths=(str(path),), rules=cards, known=cards, jobs=1)).programs
        framework = any(each.cause is Cause.FRAMEWORK for program in programs for each in program.silent_for)
        if silence(programs) and not framework:
            told.add(label_of(path))
    assert told == NOT_READ


def test_training_to_which_no_call_leads(tell: Tell) -> None:
    told = tell("train.py", train=ANOTHER_WAY, engine=TRAINING)
    assert told.programs == {"train.py": "not"}
    assert told.silent == {"train.py": [("not called", 8)]}
    assert told.lines[0].startswith(
        "train.py: no call that was followed leads to the training at engine.py:8: `model(x).sum().backward()`: "
    )
    assert told.lines[0].endswith(" rules were not checked")
    assert told.lines[1].startswith("  help: if another script starts the training, name that one")
    assert told.lines[-1] == "No mistake found in what was followed of 1 file."


def test_a_file_with_a_start_of_its_own_whose_training_another_program_calls(tell: Tell) -> None:
    trial = f"{TRAINING}\n    import registry\n    if __name__ == '__main__':\n        registry.find('train')(1, 2)\n"
    assert (
        tell(engine=trial).lines[0].startswith("engine.py: no call that was followed leads to the training at line 8")
    )
    told = tell(engine=trial, train=CLEAN)
    assert told.lines == ["No mistake found in 2 files."]
    assert told.programs == {"engine.py": "partly", "train.py": "whole"}
    # What another program trains with the same function was not looked at.
    other = tell(engine=TRAINING, train=CLEAN, another=ANOTHER_WAY)
    assert other.lines[0].startswith("another.py: no call that was followed leads to the training at engine.py:8")


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("mmcv.runner.init_dist", True),
        ("company.initDistributed", True),
        ("company.DistLauncher", True),
        ("colossal.launch", True),
        ("monai.compute_hausdorff_distance", False),
        ("transformers.DistilBertModel", False),
        ("launchpad.open", False),
    ],
)
def test_a_helper_that_begins_the_group_says_so_in_words(name: str, begins: bool) -> None:
    escape = Escape(context=EventContext(Location("a.py", 1), condition=ALWAYS), order=0, into=name)
    assert Program("a.py", LaunchWorld.TORCHRUN, (escape,)).may_begin_group is begins


def test_an_error_on_all_paths(tell: Tell) -> None:
    told = tell("train.py", train=RAISES, engine=TRAINING)
    (program,) = told.document["programs"]
    assert program["followed"] == "not"
    assert program["ended_by"]["line"] == 12
    assert program["ended_by"]["reason"].startswith("raise ValueError(")
    assert told.lines[0].startswith(
        "train.py: every path that was followed ends at line 12, before the training: `raise"
    )


UNDECLARED = """
    import argparse, torch
    from torch import nn
    from engine import train

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    print(args.momentum)
    model = nn.Linear(8, 1)
    train(model, torch.optim.SGD(model.parameters(), lr=args.lr), torch.randn(4, 8))
    """


def test_an_option_that_nobody_declares(tell: Tell) -> None:
    told = tell("train.py", train=UNDECLARED, engine=TRAINING)
    (program,) = told.document["programs"]
    assert program["ended_by"]["reason"] == "AttributeError: `args.momentum` is declared by no option"
    assert told.lines[0].startswith(
        "train.py: every path that was followed ends at line 9, in AttributeError: `args.momentum` is declared by no "
        "option: "
    )
    assert told.lines[1] == "  help: mend that first: what stands behind it was not looked at"


ONE_MODE_ENDS = """
    import argparse, torch
    from torch import nn
    from engine import train

    def fit(args):
        print(args.momentum)
        model = nn.Linear(8, 1)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))

    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="train")
    args = parser.parse_args()
    if "train" in args.mode:
        fit(args)
    """


def test_an_error_on_the_way_to_the_training_where_another_mode_lives_on(tell: Tell) -> None:
    told = tell("train.py", train=ONE_MODE_ENDS, engine=TRAINING)
    assert told.programs == {"train.py": "not"}
    assert told.lines[0].startswith(
        "train.py: the way to the training ends at line 7, in AttributeError: `args.momentum` is declared by no "
        "option: "
    )
    assert told.lines[1] == "  help: mend that first: what stands behind it was not looked at"


def test_a_statement_that_ends_the_way_to_the_training(tell: Tell) -> None:
    raising = ONE_MODE_ENDS.replace("print(args.momentum)", 'raise RuntimeError("not yet")')
    told = tell("train.py", train=raising, engine=TRAINING)
    assert told.lines[0].startswith(
        "train.py: the way to the training ends at line 7, in `raise RuntimeError('not yet')`: "
    )


def test_an_error_of_a_mode_that_does_not_train_is_no_reason(tell: Tell) -> None:
    """`show` ends in an error, and has nothing to do with the training, which nobody calls."""
    told = tell("train.py", train=ANOTHER_WAY.replace("def main():", SHOWING), engine=TRAINING)
    assert "ends at" not in told.lines[0]


SHOWING = """
    def show():
        raise RuntimeError("not yet")

    if len(sys.argv) > 7:
        show()

    def main():
    """


def test_ranks_that_end_before_they_come_to_any_training(tell: Tell) -> None:
    told = tell("train.py", train=ENDING_RANKS)
    assert told.programs == {"train.py": "not"}
    assert told.lines[0].startswith(
        "train.py: every path that was followed ends at line 6, before the training: `raise"
    )


def test_a_program_that_ends_with_its_status_has_not_failed(tell: Tell) -> None:
    told = tell(
        "train.py", train=CLEAN.rstrip() + "\n    import sys, other\n    sys.exit(other.status())\n", engine=TRAINING
    )
    assert told.document["programs"][0]["ended_by"] is None
    assert told.programs == {"train.py": "whole"}


def test_a_framework_that_runs_the_training(tell: Tell) -> None:
    told = tell("train.py", train=LIGHTNING)
    assert told.programs == {"train.py": "not"}
    assert told.lines[0].startswith("train.py: Lightning runs the training at line 14: ")
    rules = told.document["programs"][0]["silent_for"][0]["rules"]
    assert "GPU102" in rules
    # How ranks are started was followed, and is the business of Lightning.
    about_starting = {card.code for card in find_rules().select() if card.needs == ("Spawn",)}
    assert about_starting
    assert about_starting.isdisjoint(rules)


def test_a_framework_is_told_where_its_trainer_is_made(tell: Tell) -> None:
    made = "from transformers import Trainer, TrainingArguments\nargs = TrainingArguments('out')\n"
    told = tell("train.py", train=made + "Trainer(args=args).train()\n")
    assert told.lines[0].startswith("train.py: the Trainer of Transformers runs the training at line 3: ")


@pytest.mark.parametrize(
    ("imported", "base", "constructor", "who"),
    [
        ("transformers.trainer", "Trainer", "", "the Trainer of Transformers"),
        ("transformers", "Seq2SeqTrainer", "super().__init__(*given)", "the Trainer of Transformers"),
        ("lightning.pytorch.cli", "LightningCLI", "", "Lightning"),
    ],
)
def test_a_trainer_of_ones_own_under_that_of_a_framework(
    tell: Tell, imported: str, base: str, constructor: str, who: str
) -> None:
    made = f"def __init__(self, *given):\n        {constructor}" if constructor else "pass"
    step = "class Net:\n    def training_step(self, batch):\n        return batch\n"
    owner = f"from {imported} import {base}\nclass Mine({base}):\n    {made}\nclass Ours(Mine): pass\n"
    told = tell("train.py", train=f"{owner}{step}Ours(Net()).train()\n")
    assert told.lines[0].startswith(f"train.py: {who} runs the training at line ")


STARTED = """
    import torch.multiprocessing as mp
    from fastcore.script import call_parse
    from engine import train
    from torch import nn
    import torch

    def worker(rank, rounds):
        model = nn.Linear(8, 1)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(4, 8))

    @call_parse
    def main(rounds: int = 3):
        mp.spawn(worker, args=(rounds,), nprocs=2)
    """


@pytest.mark.parametrize("called", ["@call_parse", "@call_parse()"])
def test_a_decorator_that_starts_the_program(tell: Tell, called: str) -> None:
    """It asks whether the file is the program, as a main guard does: spawned processes do not start anew."""
    told = tell(train=STARTED.replace("@call_parse", called), engine=TRAINING)
    assert told.programs == {"train.py": "whole"}
    assert "GPU405" not in {each["code"] for each in told.document["findings"]}


def test_a_framework_beside_a_training_of_ones_own(tell: Tell) -> None:
    told = tell("train.py", train=ACCELERATE)
    assert told.programs == {"train.py": "partly"}
    assert told.lines[0].startswith("train.py: Accelerate takes charge at line 7: ")
    assert "GPU302" in told.document["programs"][0]["silent_for"][0]["rules"]
    assert told.lines[-1] == "No mistake found in 1 file by the rules that were checked."


BY_CHOICE = """
    import argparse, torch, torchvision
    import torch.distributed as dist
    from torch import nn

    parser = argparse.ArgumentParser()
    parser.add_argument("--zero", action="store_true")
    given, _ = parser.parse_known_args()
    if given.zero:
        import deepspeed
        parser = deepspeed.add_config_arguments(parser)
    args = parser.parse_args()
    dist.init_process_group("nccl")
    model = nn.Linear(8, 1).cuda()
    if args.zero:
        model, optimizer, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
    else:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[dist.get_rank()])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torchvision.datasets.CIFAR100("data", download=True)
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(4, 8).cuda()).sum().backward()
        optimizer.step()
    """


@pytest.mark.parametrize(
    ("declared", "charge", "starts"),
    [
        ("", "at line 16, if `--zero` is given: ", "torchrun"),
        (", default=True", "at line 16: ", "`deepspeed`"),
    ],
    ids=["off by default", "on by default"],
)
def test_a_framework_that_an_option_asks_for(
    tell: Tell, declared: str, charge: str, starts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = tell("train.py", train=BY_CHOICE.replace('action="store_true"', f'action="store_true"{declared}'))
    assert told.lines[0].startswith(f"train.py: DeepSpeed takes charge {charge}")
    cli.main(["lint", "--select=GPU314", "--no-cache", "train.py"])
    assert f"happens when {starts} starts one process per GPU" in capsys.readouterr().out


@pytest.mark.parametrize(("beside", "called"), [("", False), ("from loop import save\nsave(0)\n", True)])
def test_a_mistake_in_what_no_program_calls_says_so(
    tell: Tell, beside: str, called: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = """
        import torch, torch.distributed as dist

        def save(step):
            if dist.get_rank() == 0:
                dist.barrier()
    """
    start = "import torch.distributed as dist\ndist.init_process_group('nccl')\n"
    (found,) = tell(train=start + beside, loop=loop).document["findings"]
    assert (found["code"], found["confidence"]) == ("GPU501", "definite" if called else "likely")
    cli.main(["lint", "--no-cache", "."])
    assert ("No program that was read comes here." in capsys.readouterr().out) is not called


FROM_A_MODULE = """
    import sys, torch
    from torch import nn
    import trainers

    model = nn.Linear(8, 1)
    kind = getattr(trainers, sys.argv[1])
    kind({given}).train(torch.randn(4, 8))
    """
TRAINERS = """
    import torch

    class Plain:
        def __init__(self, model, optimizer=None):
            self.model = model
            self.optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)

        def train(self, x):
            self.model(x).sum().backward()
            self.optimizer.step()
    """


@pytest.mark.parametrize(
    ("given", "told_at"),
    [
        ("model", "no call that was followed leads to the training at trainers.py:10"),
        (
            "model, torch.optim.SGD(model.parameters(), lr=0.1)",
            "no training was seen: the optimizer goes into `kind` at line 8, which was not read",
        ),
    ],
    ids=["makes its optimizer", "is given one"],
)
def test_a_trainer_whose_name_is_an_option(tell: Tell, given: str, told_at: str) -> None:
    # Of a few classes each would be tried.
    kinds = "".join(f"class Kind{number}(Plain):\n    pass\n" for number in range(30))
    told = tell(launch=FROM_A_MODULE.format(given=given), trainers=dedent(TRAINERS) + kinds)
    assert told.lines[0].startswith(f"launch.py: {told_at}")
    assert told.programs["launch.py"] == "not"
    # That no program calls what is in the other file would be untrue.
    assert not [line for line in told.lines if "no program calls" in line]


def test_a_gradient_of_a_formula_is_no_training(tell: Tell) -> None:
    density = """
        import torch

        def score(x, density):
            return torch.autograd.grad(density(x).sum(), x)[0]
    """
    draws = "import torch\nfrom densities import normal\nprint(normal(torch.zeros(3)))\n"
    assert tell(draw=draws, density=density, densities="def normal(x):\n    return -x ** 2\n").lines == [
        "No mistake found in 3 files."
    ]


SETTINGS_OF_A_FILE = """
    import torch, yaml
    from torch import nn
    from engine import train

    class Section(object):
        pass

    class Config:
        def __init__(self, path):
            self.model = Section()
            self.model.kind = "small"
            self.sections = {"model": self.model, "data": Section()}
            with open(path) as file:
                for name, values in yaml.safe_load(file).items():
                    for key, value in values.items():
                        setattr(self.sections[name], key, value)

        def check(self):
            assert self.model.kind != "small", "it is too small"
            if self.model.interpolates:
                assert self.model.kind == "large"

    Config("c.yaml").check()
    """


def test_a_file_of_settings_may_say_otherwise_than_the_code(tell: Tell) -> None:
    trains = dedent(SETTINGS_OF_A_FILE) + dedent(CLEAN)
    told = tell("train.py", train=trains, engine=TRAINING)
    assert told.programs == {"train.py": "whole"}
    assert told.lines == ["No mistake found in 1 file."]


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
    doubted = replace(sure, confidence=Confidence.LIKELY, doubt="The program was not followed to its end.")
    assert story(doubted) == ["It is wrong.", "The program was not followed to its end."]
    assert merged([doubted, sure]) == merged([sure, doubted]) == [sure]


def test_training_of_a_program_that_was_cut_is_not_told_again(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    clean = dedent(CLEAN)
    imports, work = clean[: clean.index("model")], "x = 1\n" * 1_600
    told = tell(train=imports + work + clean, engine=TRAINING)
    assert [line.split(":")[0] for line in told.lines if not line.startswith("  ")][:-1] == ["train.py"]


def test_a_function_that_no_program_calls_in_a_file_that_they_share(tell: Tell) -> None:
    shared = "def size():\n    return 8\n" + dedent(TRAINING)
    told = tell(tool="from engine import size\nprint(size())\n", engine=shared)
    assert told.lines[0].startswith("engine.py: no program calls the training at line 10: ")
    assert told.lines[-1] == "No mistake found in 1 of 2 files; 1 was not followed to the end."


def test_a_model_that_is_not_known(tell: Tell) -> None:
    made = CLEAN.replace("nn.Linear(8, 1)", "registry.model()").replace("torch.randn(4, 8)", "registry.batch()")
    made = made.replace("import torch", "import torch, registry", 1)
    told = tell("train.py", train=made, engine=TRAINING)
    assert told.programs == {"train.py": "partly"}
    assert "train.py: the training at engine.py:8 was followed, and which model it trains is not known" in told.lines[0]


UNKNOWN_ON_RANKS = """
    import os, sys, torch
    import torch.distributed as dist
    from importlib import import_module
    from torch.nn.parallel import DistributedDataParallel

    gpu = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl")
    model = DistributedDataParallel(import_module(sys.argv[1]).Net().cuda(), device_ids=[gpu])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        model(torch.randn(8, 4, device="cuda")).sum().backward()
        optimizer.step()
    """
INSIDE_OF_MODELS = {"GPU112", "GPU211", "GPU212", "GPU213", "GPU214", "GPU215", "GPU501"}


@pytest.mark.parametrize("beside", ["", "dist.barrier()"], ids=["nothing", "a collective"])
def test_what_may_stand_in_a_model_that_is_not_known(tell: Tell, beside: str) -> None:
    told = tell("train.py", train=dedent(UNKNOWN_ON_RANKS) + beside)
    (unknown,) = (each for each in told.document["programs"][0]["silent_for"] if each["cause"] == "unknown model")
    assert set(unknown["rules"]) >= INSIDE_OF_MODELS | {"GPU202"}


def test_a_forward_that_was_not_followed(tell: Tell, monkeypatch: pytest.MonkeyPatch) -> None:
    train = dedent(UNKNOWN_ON_RANKS).replace("import_module(sys.argv[1])", "nets")
    train = train.replace("import os", "import nets, os").replace("model(torch", "made = model(torch")
    train = train.replace(".sum()", "\n    made.sum()")
    followed = tell("train.py", train=train, nets=NET_OF_ONE_LAYER)
    assert followed.lines == ["No mistake found in 1 file."]
    monkeypatch.setattr(forward_body, "MOST_STATEMENTS", 5)
    told = tell("train.py", train=train, nets=NET_OF_ONE_LAYER)
    assert told.lines[0].startswith("train.py: the `forward` of `Net`, called at line 14, was not followed: ")
    assert told.programs == {"train.py": "partly"}
    (silent,) = told.document["programs"][0]["silent_for"]
    assert set(silent["rules"]) >= INSIDE_OF_MODELS
    assert "GPU202" not in silent["rules"]


NET_OF_ONE_LAYER = """
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 1)

        def forward(self, x):
            return self.layer(x)
    """


TRAINER = """
    import torch

    class Trainer:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train(self):
            for _ in range(10):
                self.step(torch.randn(4, 8))

        def step(self, x):
            self.optimizer.zero_grad()
            self.model(x).sum().backward()
            self.optimizer.step()
    """
CHOSEN = """
    import hydra
    from hydra.utils import instantiate
    from torch import nn
    from trainer import Trainer

    @hydra.main(config_path="configs", config_name="base", version_base=None)
    def main(config):
        trainer: Trainer = instantiate(config.trainer, model=nn.Linear(8, 1))
        trainer.restore(config.checkpoint)
        trainer.train()

    main()
    """
CHOSEN_TRAINER = (
    LIGHTNING.replace("L.Trainer(max_epochs=3).fit(Net())", "")
    + """
    import hydra
    @hydra.main(config_path="configs", config_name="base", version_base=None)
    def main(config):
        trainer, net = hydra.utils.instantiate(config.trainer), Net()
        trainer.validate(net)
        trainer.fit(net)

    main()
    """
)


@pytest.mark.parametrize(("program", "call", "line"), [(CHOSEN, "train", 11), (CHOSEN_TRAINER, "fit", 21)])
def test_a_training_that_a_setting_chooses(tell: Tell, program: str, call: str, line: int) -> None:
    told = tell("train.py", train=program, trainer=TRAINER)
    assert told.silent["train.py"][0] == ("unread", line)
    assert told.lines[0].startswith(
        "train.py: the training was not reached: `hydra.utils.instantiate` chooses at run time what "
        f"`trainer.{call}` calls at line {line}: "
    )
    assert told.lines[1].startswith("  help: `gpudoctor run train.py` watches the training itself, with the settings")
    assert told.programs == {"train.py": "not"}
    assert tell("--fail-on=not-followed", "train.py").code == 1


RUNNER = """
    import torch
    from torch import nn

    class Runner:
        def __init__(self, size):
            self.net = nn.Linear(size, 1)

        def go(self):
            optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
            for _ in range(10):
                optimizer.zero_grad()
                self.net(torch.randn(4, 8)).sum().backward()
                optimizer.step()
    """


@pytest.mark.slow
@pytest.mark.parametrize(
    ("starts", "trains"),
    [
        ("Runner(8).go()", True),
        ("runner = Runner(8)\nrunner.go()", True),
        ("def work():\n    Runner(8).go()\nwork()", True),
        ("if __name__ == '__main__':\n    Runner(8).go()", True),
        ("print(Runner)", False),
        ("from setuptools import setup\nsetup(name='pieces')", False),
    ],
)
def test_a_launcher_without_a_word_about_training(tell: Tell, starts: str, trains: bool) -> None:
    told = tell(start=f"from pieces import Runner\n{starts}\n", pieces=RUNNER)
    # A script that starts no training leaves what it imports to be looked at on its own.
    assert told.programs == {"start.py": "whole"} | ({} if trains else {"pieces.py": "partly"})


WRAPS = """
    import torch
    from torch.nn.parallel import DistributedDataParallel

    def distributed(model, gpu):
        torch.cuda.set_device(gpu)
        return DistributedDataParallel(model.cuda(gpu), device_ids=[gpu])
    """
UNWRAPS = """
    from torch.nn.parallel import DistributedDataParallel

    def bare(model):
        return model.module if isinstance(model, DistributedDataParallel) else model
    """


def test_a_wrapper_that_no_program_makes(tell: Tell) -> None:
    told = tell(wraps=WRAPS, unwraps=UNWRAPS)
    wrapped, helped, summary = told.lines
    assert wrapped.startswith("wraps.py: no program calls what wraps a model in `DistributedDataParallel` at line 7: ")
    assert helped == "  help: if a program elsewhere starts the training, name that one"
    assert summary == "No mistake found in 1 of 2 files; 1 was not followed to the end."
    user = CLEAN.replace("import torch", "import torch, wraps", 1)
    assert tell(train=user, engine=TRAINING).lines == ["No mistake found in 4 files."]


NAMED_IN_A_FILE = """
    import sys, torch
    from importlib import import_module
    from torch.utils.data import DataLoader, TensorDataset

    net = import_module(sys.argv[1]).Net()
    cost = import_module(sys.argv[1]).Cost()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(TensorDataset(torch.zeros(64, 8), torch.zeros(64)), batch_size=8, shuffle=True):
        optimizer.zero_grad()
        cost(net(x), y)["loss"].backward()
        optimizer.step()
    """


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_model_and_its_loss_that_are_not_known(tell: Tell, wrapped: bool) -> None:
    made = "import_module(sys.argv[1]).Net()"
    train = NAMED_IN_A_FILE.replace(made, f"torch.nn.DataParallel({made})") if wrapped else NAMED_IN_A_FILE
    told = tell("train.py", train=train)
    assert told.programs == {"train.py": "partly"}
    assert ("unknown model", 11) in told.silent["train.py"]


TIMING = """
    import torch

    def profile(model, x):
        model(x).sum().backward()
        return torch.cuda.max_memory_allocated()
    """


def test_who_trains_nothing_is_not_accused(tell: Tell) -> None:
    benchmark = "import sys, timing\nprint(getattr(timing, sys.argv[1]), timing.profile)\n"
    others = {"plot": "print(1)", "nets": HELPERS, "timing": TIMING, "benchmark": benchmark}
    told = tell(evaluate=EVALUATION, engine=TRAINING, train=CLEAN, **others)
    assert told.lines == ["No mistake found in 7 files."]
    assert {each["followed"] for each in told.document["programs"] if each["world"]} == {"whole"}


def test_a_library_whose_training_no_program_calls_is_told_once(tell: Tell) -> None:
    told = tell(engine=TRAINING, other=TRAINING, nets=HELPERS)
    assert told.programs["engine.py"] == "partly"
    lines = [line for line in told.lines if "no program calls" in line]
    assert len(lines) == 1
    assert lines[0].startswith("engine.py and 1 more: no program calls the training at line 8")
    assert "  help: if a program elsewhere starts the training, name that one" in told.lines


LOADS_INTO = """
    import os, torch
    import torch.distributed as dist
    from torch import nn
    from company import Net

    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    net = Net()
    net.load_state_dict(torch.load("net.pt", map_location=None))
    net = nn.parallel.DistributedDataParallel(net.cuda(), device_ids=[local_rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(10):
        optimizer.zero_grad()
        net(torch.randn(4, 8).cuda()).mean().backward()
        optimizer.step()
    dist.destroy_process_group()
    """


@pytest.mark.parametrize(("where", "unchecked"), [("None", True), ("'cpu'", False)])
def test_a_state_of_something_unknown(where: str, unchecked: bool, tell: Tell) -> None:
    told = tell(train=LOADS_INTO.replace("map_location=None", f"map_location={where}"))
    (program,) = told.document["programs"]
    because = [each["because"] for each in program["silent_for"] if "GPU209" in each["rules"]]
    assert bool(because) is unchecked
    assert all("goes into `Net().load_state_dict` at train.py:11, which was not read" in each for each in because)


def test_a_command_that_does_not_come_to_its_training(tell: Tell) -> None:
    """`setup.py` names its function; nothing in the file calls it."""
    start = """
        import registry, torch
        from engine import train

        def main():
            registry.find("train")(None, None, None)
        """
    setup = "from setuptools import setup\nsetup(entry_points={'console_scripts': ['go=start:main']})\n"
    Path("setup.py").write_text(setup, encoding="utf-8")
    told = tell(start=start, engine=TRAINING)
    assert told.programs["start.py"] == "not"
    assert told.lines[0].startswith("start.py: no call that was followed leads to the training at engine.py:8: ")
    assert told.lines[-1] == "No mistake found in 2 of 3 files; 1 was not followed to the end."


def test_rules_that_were_not_checked_beside_programs_that_were_not_followed(tell: Tell) -> None:
    told = tell(tool=RAISES, prepared=ACCELERATE, engine=TRAINING)
    assert told.lines[-1] == (
        "No mistake found in 2 of 3 files by the rules that were checked; 1 was not followed to the end."
    )


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


def test_services_are_told_in_one_note(tell: Tell, capsys: pytest.CaptureFixture[str]) -> None:
    tell(train=LIGHTNING, tool=RAISES, engine=TRAINING)
    formats = {}
    for name in ("github", "gitlab", "sarif"):
        assert cli.main(["lint", "--no-cache", f"--output-format={name}", "."]) == 0
        formats[name] = capsys.readouterr().out
    (command,) = [line for line in formats["github"].splitlines() if line.startswith("::notice ")]
    assert command.startswith("::notice file=tool.py,title=gpudoctor%3A not all was followed::tool.py: every path ")
    assert "%0Atrain.py: Lightning runs the training at line 14: " in command
    (issue,) = json.loads(formats["gitlab"])
    assert (issue["check_name"], issue["severity"], issue["location"]["path"]) == ("not-followed", "info", "tool.py")
    assert "Lightning runs the training" in issue["description"]
    (run,) = json.loads(formats["sarif"])["runs"]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["level"] == "note"
    assert told["message"]["text"].startswith("tool.py: every path ")
    assert run["results"] == []


def test_a_program_that_was_cut_is_told_to_services_once(
    tell: Tell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 1_500)
    told = tell(train=dedent(CLEAN) + "x = 1\n" * 1_600, engine=TRAINING)
    assert [each["path"] for each in told.document["errors"]] == ["train.py"]
    for name in ("github", "gitlab", "sarif"):
        cli.main(["lint", "--no-cache", f"--output-format={name}", "."])
        assert len(re.findall("1,?500 statements", capsys.readouterr().out)) == 1


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


EXTRACTS = LIGHTNING.replace("L.Trainer(max_epochs=3).fit(Net())", "print(Net()(torch.randn(4, 8)))")


def test_who_only_has_a_module_of_lightning_trains_nothing(tell: Tell) -> None:
    """Nobody but a Trainer calls `training_step`."""
    told = tell("extract.py", extract="from nets import Net\nprint(Net(), 'train')\n", nets=EXTRACTS)
    assert told.lines == ["No mistake found in 1 file."]
    hidden = "import registry\nfrom nets import Net\nregistry.trainer().fit(Net())\n"
    assert tell("start.py", start=hidden, nets=EXTRACTS).lines[0].startswith("start.py: no call that was followed")


def test_a_method_of_that_name_is_no_function_of_the_project(tell: Tell) -> None:
    told = tell("show.py", show="from engine import nn\nnn.Linear(8, 1).train()\n", engine=TRAINING)
    assert told.lines == ["No mistake found in 1 file."]


def test_tests_train_nothing(tell: Tell) -> None:
    step = "def step(model, x):\n    model(x).sum().backward()\n    model.optimizer.step()\n"
    checks = f"import torch\n{step}def test_step():\n    import registry\n    registry.check(step)\n"
    assert tell(test_step=checks, train=CLEAN, engine=TRAINING).lines == ["No mistake found in 3 files."]


SAMPLES = """
    import torch
    from accelerate import Accelerator
    from torch import nn

    accelerator = Accelerator()
    model = accelerator.prepare(nn.Linear(8, 1))
    with torch.no_grad():
        accelerator.print(model(torch.randn(4, 8)))
    """


def test_a_framework_takes_no_charge_of_a_training_that_is_not_there(tell: Tell) -> None:
    told = tell("sample.py", sample=SAMPLES)
    assert told.silent["sample.py"], "but it is in the document"
    assert not [line for line in told.lines if "takes charge" in line]


def test_what_trains_in_another_file_is_told_of_the_one_that_starts_it(tell: Tell) -> None:
    starts = """
        import torch.multiprocessing as mp
        from engine import work

        def start(count):
            mp.spawn(work, args=(count,), nprocs=count)
        """
    work = """
        import torch

        def work(rank, count):
            model = torch.nn.Linear(8, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
        """
    told = tell(starts=starts, engine=work)
    (line,) = [line for line in told.lines if "no program calls" in line]
    assert line.startswith("starts.py: no program calls what leads to the training at engine.py:7")


def test_an_optimizer_that_goes_where_nobody_has_looked(tell: Tell) -> None:
    given = "import torch\nfrom company.loops import train\nmodel = torch.nn.Linear(8, 1)\n"
    given += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\ntrain(model, optimizer)\n"
    told = tell("train.py", train=given)
    assert told.programs == {"train.py": "not"}
    assert told.lines[0].startswith(
        "train.py: no training was seen: the optimizer goes into `company.loops.train` at line 5, which was not read: "
    )
    assert told.lines[-1] == "No mistake found in what was followed of 1 file."


@pytest.mark.parametrize(
    ("program", "told_at"),
    [
        (
            "from mmdet.apis import train_detector\ntrain_detector(build(cfg), [], cfg)",
            "the runner of OpenMMLab runs the training at line 5: ",
        ),
        (
            "from company.registry import registry\n"
            'trainer = registry.get_trainer_class(cfg["trainer"])(cfg)\nregistry.get_task(cfg).run(trainer)',
            "`company.registry.registry.get_trainer_class` runs the training at line 5: ",
        ),
        ("from company.data import train_transforms\ntrain_transforms(cfg)", ""),
        ("from company import Trainer\nstep = torch.ones(1, requires_grad=True).sum().backward()\nTrainer(cfg)", ""),
    ],
    ids=["of mmdet", "of a registry", "of data", "beside a training of its own"],
)
def test_a_library_that_was_not_read_and_trains(tell: Tell, program: str, told_at: str) -> None:
    told = tell("train.py", train=f"import torch, yaml\nfrom nets import build\ncfg = yaml.safe_load('c')\n{program}\n")
    if told_at:
        assert told.lines[0].startswith(f"train.py: {told_at}")
        assert told.programs == {"train.py": "not"}
        assert "GPU501" in told.document["programs"][0]["silent_for"][0]["rules"]
    else:
        assert "runs the training" not in told.lines[0]


@pytest.mark.parametrize("arguments", [("train.py",), (".",)], ids=["named", "in its folder"])
@pytest.mark.parametrize("beside", ["", "import models\n"], ids=["alone", "beside a file of its own"])
def test_a_library_that_was_not_read_trains_in_a_program_that_names_no_framework(
    tell: Tell, arguments: tuple[str, ...], beside: str
) -> None:
    starts = f"import sys\nfrom company.registry import registry\n{beside}if __name__ == '__main__':\n"
    starts += "    trainer = registry.get_trainer_class(sys.argv[1])(sys.argv[2])\n    trainer.run()\n"
    told = tell(*arguments, train=starts, models="sizes = {'small': 8}\n")
    assert told.programs == {"train.py": "not"}
    assert told.lines[0].startswith(
        "train.py: `company.registry.registry.get_trainer_class` runs the training at line "
    )
    assert "not followed to the end" in told.lines[-1] or "in what was followed of" in told.lines[-1]


def test_a_script_that_names_no_framework_and_trains_nothing(tell: Tell) -> None:
    plots = "from company.data import train_data\nprint(train_data('a.csv').mean())\n"
    assert tell("plots.py", plots=plots).lines == ["No mistake found in 1 file."]


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
    assert first.startswith("ranks.py: the training at line 8 was followed, and which model it trains is not known")
    assert helped == "  help: `gpudoctor run ranks.py` watches the training itself, whichever model it is"
    assert second.startswith("one.py and 1 more: no call that was followed leads to the training at engine.py:8")
    assert helped_second.startswith("  help: if another script starts the training")
    assert told.lines[4].startswith("engine1.py and 4 more: no program calls the training")


def test_help_for_several_lines_says_so(tell: Tell) -> None:
    other = ANOTHER_WAY.replace("from engine", "from motor")
    told = tell(one=ANOTHER_WAY, two=other, engine=TRAINING, motor="\n" + dedent(TRAINING))
    assert [line.split(":")[0] for line in told.lines[:3]] == ["one.py", "two.py", "  help for these 2"]
    assert "`gpudoctor run SCRIPT`" in told.lines[2]


def test_an_error_on_all_paths_behind_the_training_and_before_any(tell: Tell) -> None:
    behind = dedent(CLEAN) + "def size(kind):\n    if kind == 'b':\n        return 1\n    raise ValueError(kind)\n"
    behind += "size('a')\nprint(model)\n"
    told = tell("train.py", train=behind, engine=TRAINING)
    assert told.programs == {"train.py": "partly"}
    assert told.lines[0].startswith("train.py: every path that was followed ends at line 10, after the first training")
    before = "import torch\nfrom company import loop\ndata = torch.utils.data.DataLoader(loop.data(), batch_size=8)\n"
    before += "def size(kind):\n    if kind == 'b':\n        return 1\n    raise ValueError(kind)\n"
    before += "loop.run(size('a'), data)\n"
    told = tell("start.py", start=before)
    assert told.lines[0].startswith(
        "start.py: every path that was followed ends at line 7, before the training: `raise"
    )


def test_a_function_of_the_same_name_is_another_one(tell: Tell) -> None:
    options = "class Options:\n    split = 'train'\n"
    trains = dedent(TRAINING) + f"{options}def main():\n    import registry\n    registry.go()\n"
    shows = "from engine import Options\ndef main():\n    print(Options.split, 'train')\nmain()\n"
    assert tell("show.py", show=shows, engine=trains).lines == ["No mistake found in 1 file."]


def test_what_a_module_does_not_have_is_called_by_its_name(tell: Tell) -> None:
    given = "import torch\nfrom loops import run\nmodel = torch.nn.Linear(8, 1)\n"
    given += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nrun(model, optimizer)\n"
    told = tell("train.py", train=given, loops="from company import *\n")
    assert "the optimizer goes into `loops.run` at line 5" in told.lines[0]


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
