"""Training that was followed, or nearly, of models, trainers and optimizers that are not known."""

from textwrap import dedent

import pytest

from gpudoctor.lint.analyses import forward_body
from tests.support.told import CLEAN, LIGHTNING, TRAINING, Tell

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
    "given",
    ["model", "model, torch.optim.SGD(model.parameters(), lr=0.1)"],
    ids=["makes its optimizer", "is given one"],
)
def test_a_trainer_whose_name_is_an_option(tell: Tell, given: str) -> None:
    # Of a few classes each would be tried; of so many, two are.
    kinds = "".join(f"class Kind{number}(Plain):\n    pass\n" for number in range(30))
    told = tell(launch=FROM_A_MODULE.format(given=given), trainers=dedent(TRAINERS) + kinds)
    assert told.lines[0].startswith("launch.py: `model` goes into `getattr(trainers, sys.argv[1])` at line 8")
    assert told.programs["launch.py"] == "partly"
    # That no program calls what is in the other file would be untrue.
    assert not [line for line in told.lines if "no program calls" in line]


def test_a_model_that_is_not_known(tell: Tell) -> None:
    made = CLEAN.replace("nn.Linear(8, 1)", "registry.model()").replace("torch.randn(4, 8)", "registry.batch()")
    made = made.replace("import torch", "import torch, registry", 1)
    told = tell("train.py", train=made, engine=TRAINING)
    assert told.programs == {"train.py": "partly"}
    assert "the training at engine.py:8 was followed, but the model that it trains is not known" in told.lines[0]


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
# Left to the classes below, one of which is meant.
ABSTRACT = """
        def restore(self, path):
            raise NotImplementedError
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
    told = tell("train.py", train=program, trainer=TRAINER + ABSTRACT)
    assert told.silent["train.py"][0] == ("unread", line)
    assert told.lines[0].startswith(
        "train.py: the training was not reached: `hydra.utils.instantiate` chooses at run time what "
        f"`trainer.{call}` calls at line {line}: "
    )
    assert told.lines[1].startswith("  help: `gpudoctor run train.py` watches the training itself, with the settings")
    assert told.programs == {"train.py": "not"}
    assert tell("--fail-on=not-followed", "train.py").code == 1


def test_a_trainer_that_an_annotation_names(tell: Tell) -> None:
    # `restore` is that of a class below the one that is named.
    told = tell("train.py", train=CHOSEN, trainer=TRAINER)
    assert told.silent["train.py"][0] == ("unknown model", 15)
    assert told.programs == {"train.py": "partly"}


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


def test_an_optimizer_that_goes_where_nobody_has_looked(tell: Tell) -> None:
    given = "import torch\nfrom company.loops import train\nmodel = torch.nn.Linear(8, 1)\n"
    given += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\ntrain(model, optimizer)\n"
    told = tell("train.py", train=given)
    assert told.programs == {"train.py": "not"}
    assert told.lines[0].startswith(
        "train.py: no training was seen: the optimizer goes into `company.loops.train` at line 5, which was not read: "
    )
    assert told.lines[-1] == "No mistake found in what was followed of 1 file."


def test_what_a_module_does_not_have_is_called_by_its_name(tell: Tell) -> None:
    given = "import torch\nfrom loops import run\nmodel = torch.nn.Linear(8, 1)\n"
    given += "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nrun(model, optimizer)\n"
    told = tell("train.py", train=given, loops="from company import *\n")
    assert "the optimizer goes into `loops.run` at line 5" in told.lines[0]


CHOSEN_BY_A_SETTING = """
    import importlib, json, os, torch, torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler
    config = json.loads(os.environ["CONFIG"])
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    data = torch.utils.data.TensorDataset(torch.randn(8, 2))
    loader = DataLoader(data, sampler=DistributedSampler(data))
    solver = getattr(importlib.import_module(config["module"]), config["class"])(loader)
    solver.run()
"""


def test_what_a_setting_chooses_behind_all_that_prepares_a_training(tell: Tell) -> None:
    told = tell(train=CHOSEN_BY_A_SETTING)
    assert told.programs == {"train.py": "not"}
    assert told.lines[0].startswith("train.py: the training was not reached: a setting chooses at run time what ")
    assert told.lines[-1] == "No mistake found in what was followed of 1 file."


@pytest.mark.parametrize(
    "instead",
    ["print(len(loader))", "torch.nn.Linear(2, 2)(torch.randn(1, 2))\n    solver.run()"],
    ids=["nothing unknown is called", "a model is called, as one evaluates"],
)
def test_what_prepares_no_training_is_not_told(tell: Tell, instead: str) -> None:
    source = CHOSEN_BY_A_SETTING if "solver" in instead else CHOSEN_BY_A_SETTING.replace("solver = ", "# ")
    assert tell(train=source.replace("solver.run()", instead)).lines == ["No mistake found in 1 file."]


STARTED_BY_ITS_NAME = """
    import importlib, sys
    package, _, name = sys.argv[1].rpartition(".")
    task = getattr(importlib.import_module(package), name)
    task.start()
"""


@pytest.mark.parametrize("beside", [TRAINING, "print('nothing')"], ids=["it trains", "nothing trains"])
def test_a_module_that_the_user_names(tell: Tell, beside: str) -> None:
    told = tell(run=STARTED_BY_ITS_NAME, task=beside)
    trains = beside is TRAINING
    assert told.programs.get("run.py") == ("not" if trains else None)
    reached = "`importlib.import_module` chooses at run time what `task.start` calls at line 5"
    assert any(reached in line for line in told.lines) is trains
