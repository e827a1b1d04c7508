"""Training that a framework runs, or a library that was not read: who it is, and from which line on."""

from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.registry import find_rules
from tests.support.told import ACCELERATE, LIGHTNING, Tell


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
    assert told.lines[0].startswith("train.py: the Trainer of Transformers takes charge at line 3: ")


@pytest.mark.parametrize(
    ("imported", "base", "constructor", "does"),
    [
        # As where the library's own class is made.
        ("transformers.trainer", "Trainer", "", "the Trainer of Transformers takes charge"),
        ("transformers", "Seq2SeqTrainer", "super().__init__(*given)", "the Trainer of Transformers takes charge"),
        ("lightning.pytorch.cli", "LightningCLI", "", "Lightning runs the training"),
    ],
)
def test_a_trainer_of_ones_own_under_that_of_a_framework(
    tell: Tell, imported: str, base: str, constructor: str, does: str
) -> None:
    made = f"def __init__(self, *given):\n        {constructor}" if constructor else "pass"
    step = "class Net:\n    def training_step(self, batch):\n        return batch\n"
    owner = f"from {imported} import {base}\nclass Mine({base}):\n    {made}\nclass Ours(Mine): pass\n"
    told = tell("train.py", train=f"{owner}{step}Ours(Net()).train()\n")
    assert told.lines[0].startswith(f"train.py: {does} at line ")


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


def test_a_trainer_of_a_module_that_is_not_there(tell: Tell) -> None:
    Path("company").mkdir()
    Path("company/__init__.py").write_text("", encoding="utf-8")
    Path("company/models.py").write_text("from torch import nn\nNet = nn.Linear\n", encoding="utf-8")
    told = tell(
        train="""
        from company.models import Net
        from company.training import Trainer
        Trainer(Net(2, 2)).train()
        """
    )
    lacking = "train.py: `company.training.Trainer`, of a module that the project lacks, runs the training at line 4: "
    assert told.lines[0].startswith(lacking)
