"""Training that begins in an assignment, an expression, a process of an own class, or by a name that is looked up."""

import pytest

from tests.support.entry_files import followed

TRAIN = """
import argparse
import sys
import torch
from torch import nn

def train(*given, **named):
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()

class Trainer:
    def run(self):
        train()
"""

# More than the whole budget of a program.
LOOK = "".join(f"        x = torch.zeros(x, {number}).cuda()\n" for number in range(100))
PLAY = "".join(f"            self.look({number})\n" for number in range(200))

WAYS = {
    "an assignment": "best = train()",
    "a search that gives a result": "from ray import tune\nanalysis = tune.run(train, config={})",
    "a job of a cluster": "import submitit\njob = submitit.AutoExecutor('x').submit(train, 1)",
    "an operator": "args = argparse.ArgumentParser().parse_args()\nargs.train and train()",
    "a comprehension": "[train(seed) for seed in range(3)]",
    "a match": "match sys.argv[1]:\n    case 'train':\n        train()\n    case _:\n        print('?')",
    "work for a pool": (
        "from torch.multiprocessing import Pool\n"
        "with Pool(3) as pool:\n    results = [pool.apply_async(train, (i,)) for i in range(3)]"
    ),
    "a process of an own class": (
        "from multiprocessing import Process\n"
        "class Worker(Process):\n    def run(self):\n        train()\n"
        "if __name__ == '__main__':\n    worker = Worker()\n    worker.start()\n    worker.join()"
    ),
    "a thread of an own class": (
        "import threading\nclass Worker(threading.Thread):\n    def run(self):\n        train()\nWorker().start()"
    ),
    "an actor of Ray": "import ray\nworker = ray.remote(num_gpus=1)(Trainer).remote()\nray.get(worker.run.remote())",
    "a decorated actor of Ray": (
        "import ray\n@ray.remote\nclass Actor(Trainer):\n    pass\n"
        "actors = [Actor.options(num_gpus=1).remote() for _ in range(2)]\n"
        "ray.get([each.run.remote() for each in actors])"
    ),
    "beside an actor of Ray that plays for ever": (
        "import ray\n@ray.remote\nclass Player:\n    def look(self, x):\n"
        f"{LOOK}    def run(self):\n        while True:\n{PLAY}"
        "Player.remote().run.remote()\ntrain()"
    ),
    "a text that is evaluated": "eval('train')()",
    "an option that is evaluated": (
        "parser = argparse.ArgumentParser()\nparser.add_argument('--task', default='train')\n"
        "eval(parser.parse_args().task)()"
    ),
    "an option with choices": (
        "parser = argparse.ArgumentParser()\nparser.add_argument('task', choices=['train', 'test'])\n"
        "globals()[parser.parse_args().task]()"
    ),
    "a method of a kind": (
        "class Tool:\n    def do_train(self):\n        train()\n    def do_test(self):\n        print('?')\n"
        "getattr(Tool(), f'do_{sys.argv[1]}')()"
    ),
}


@pytest.mark.parametrize("start", WAYS.values(), ids=WAYS)
def test_training_that_begins_so_is_followed(start: str) -> None:
    (program,) = followed("start.py", {"start.py": TRAIN + start})
    assert program.world
    assert program.training_loops == 1


MODULES = {
    "settings": "settings = dict(lr=0.1)\nparser = argparse.ArgumentParser()",
    "an object of a class that trains nothing": "class Table(dict):\n    pass\nTABLE = Table()",
    "a text that is no name": "limits = eval('[1, 2]')\nnames = [each for each in ('a', 'b')]",
}


@pytest.mark.parametrize("rest", MODULES.values(), ids=MODULES)
def test_a_module_that_makes_what_it_offers_is_no_program(rest: str) -> None:
    assert all(not each.world for each in followed("parts.py", {"parts.py": TRAIN + rest}))


def test_of_folders_and_files_those_are_chosen_among_of_which_there_are_more() -> None:
    start = """
        import importlib
        import sys
        importlib.import_module(f"nets.{sys.argv[1]}").begin()
        """
    nets = {f"nets/{name}/__init__.py": "from engine import train as begin" for name in ("one", "two", "three")}
    files = {"nets/__init__.py": "", "nets/base.py": "", "engine.py": TRAIN, **nets}
    (program,) = followed("start.py", {"start.py": start, **files})
    assert program.training_loops == 1


def test_a_module_of_one_name_in_each_of_the_folders_is_chosen() -> None:
    """`app/main.py --app one`; the folders have no `__init__.py`, and a settings folder has no such module."""
    start = """
        import importlib
        import sys
        importlib.import_module(f"app.{sys.argv[1]}.train").train()
        """
    apps = {f"app/{name}/train.py": TRAIN for name in ("one", "two")}
    (program,) = followed("start.py", {"start.py": start, "app/settings/sizes.py": "", **apps})
    assert program.training_loops == 2


def test_of_several_names_of_a_module_each_is_imported() -> None:
    start = """
        import importlib
        import sys
        name = sys.argv[1] if len(sys.argv) > 1 else "one"
        if sys.argv[2:]:
            name = "two"
        importlib.import_module(name).train()
        """
    (program,) = followed("start.py", {"start.py": start, "one.py": TRAIN, "two.py": TRAIN})
    assert program.training_loops == 2
