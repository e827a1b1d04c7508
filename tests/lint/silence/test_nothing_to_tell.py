"""Programs of which not a word is said: followed to the end, or none that trains."""

from pathlib import Path
from textwrap import dedent

from tests.support.told import CLEAN, HELPERS, LIGHTNING, TRAINING, Tell

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
EVALUATION = """
    import torch
    from engine import nn
    model = nn.Linear(8, 1).eval()
    with torch.no_grad():
        print(model(torch.randn(4, 8)))
    """


def test_a_clean_program_says_no_word_more(tell: Tell) -> None:
    told = tell(train=CLEAN, engine=TRAINING, nets=HELPERS)
    assert told.lines == ["No mistake found in 3 files."]
    assert told.document["programs"] == [
        {
            "path": "train.py",
            "world": "single",
            "started": "",
            "followed": "whole",
            "training_loops": 1,
            "ended_by": None,
            "silent_for": [],
        }
    ]


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


NOTHING = "Nothing to check: the file names neither PyTorch nor a library known to train with it."
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


def test_a_script_that_names_no_framework_and_trains_nothing(tell: Tell) -> None:
    plots = "from company.data import train_data\nprint(train_data('a.csv').mean())\n"
    assert tell("plots.py", plots=plots).lines == [NOTHING]


def test_a_folder_that_trains_with_something_else(tell: Tell) -> None:
    fits = "import tensorflow as tf\ntf.keras.Sequential().fit([], [])\n"
    told = tell(train=fits, plots="print('accuracy')\n")
    assert told.lines == ["Nothing to check: the 2 files name neither PyTorch nor a library known to train with it."]


def test_a_function_of_the_same_name_is_another_one(tell: Tell) -> None:
    options = "class Options:\n    split = 'train'\n"
    trains = dedent(TRAINING) + f"{options}def main():\n    import registry\n    registry.go()\n"
    shows = "from engine import Options\ndef main():\n    print(Options.split, 'train')\nmain()\n"
    assert tell("show.py", show=shows, engine=trains).lines == ["No mistake found in 1 file."]
