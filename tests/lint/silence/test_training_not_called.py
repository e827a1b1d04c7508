"""Training to which no call leads that was followed, in programs and in files that none of them calls."""

from pathlib import Path
from textwrap import dedent

import pytest

from gpudoctor import cli
from tests.support.told import ANOTHER_WAY, CLEAN, HELPERS, TRAINING, Tell


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
    assert found["severity"] == ("error" if called else "warning")
    cli.main(["lint", "--no-cache", "."])
    assert ("No program that was read gets here." in capsys.readouterr().out) is not called


def test_a_function_that_no_program_calls_in_a_file_that_they_share(tell: Tell) -> None:
    shared = "def size():\n    return 8\n" + dedent(TRAINING)
    told = tell(tool="from engine import size\nprint(size())\n", engine=shared)
    assert told.lines[0].startswith("engine.py: no program calls the training at line 10: ")
    assert told.lines[-1] == "No mistake found in 1 of 2 files; 1 was not followed to the end."


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


def test_a_library_whose_training_no_program_calls_is_told_once(tell: Tell) -> None:
    told = tell(engine=TRAINING, other=TRAINING, nets=HELPERS)
    assert told.programs["engine.py"] == "partly"
    lines = [line for line in told.lines if "no program calls" in line]
    assert len(lines) == 1
    assert lines[0].startswith("engine.py and 1 more: no program calls the training at line 8")
    assert "  help: if a program elsewhere starts the training, name that one" in told.lines


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


SOLVERS = """
    import argparse
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    import tasks

    parser = argparse.ArgumentParser()
    parser.add_argument("--test-only", action="store_true")
    args = parser.parse_args()
    dist.init_process_group("nccl")
    solver = tasks.TASKS["detection"]()
    if args.test_only:
        solver.val()
    else:
        solver.fit()
    """
TASKS = """
    import torch
    from torch.nn.parallel import DistributedDataParallel

    class Solver:
        def begin(self):
            self.model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
        def val(self):
            self.begin()
            with torch.no_grad():
                print(self.model(torch.randn(4, 8).cuda()))
        def fit(self):
            self.begin()
            optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            for _ in range(10):
                optimizer.zero_grad()
                self.model(torch.randn(4, 8).cuda()).sum().backward()
                optimizer.step()

    TASKS = {"detection": Solver}
    """


def test_what_an_option_chooses_instead_of_training(tell: Tell) -> None:
    """The first that is met wraps a model, and turns nothing on by that: the training is followed as well."""
    told = tell(train=SOLVERS, tasks=TASKS)
    assert told.programs == {"train.py": "whole"}
    assert told.document["programs"][0]["training_loops"] == 1
