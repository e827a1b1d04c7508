"""Whatever calls the first function of a program, its training is reached."""

from textwrap import dedent

import pytest

from gpudoctor.coverage import Followed
from tests.support.entry_files import ENGINE, assert_trains, followed


def test_a_step_of_each_optimizer_in_a_list_counts_as_training() -> None:
    train = """
        import torch
        from torch import nn
        model = nn.Linear(8, 8)
        optimizers = [torch.optim.SGD([model.weight], lr=0.1), torch.optim.SGD([model.bias], lr=0.1)]
        for step in range(100):
            model(torch.randn(2, 8)).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        """
    assert_trains(followed("train.py", {"train.py": train}))


def test_a_script_that_calls_nothing_of_the_project_is_not_followed() -> None:
    """It imports what trains, and prints: `print` is no code of the project."""
    engine = """
        import torch
        from torch import nn

        def work():
            model = nn.Linear(8, 8)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for step in range(100):
                model(torch.randn(2, 8)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        """
    files = {"engine.py": engine, "pyproject.toml": ""}
    assert not followed("notes.py", {**files, "notes.py": "import engine\nprint('nothing')\n"})
    assert_trains(followed("begin.py", {**files, "begin.py": "import engine\nengine.work()\n"}))


STARTS = {
    "status": """
        import sys
        if __name__ == '__main__':
            sys.exit(main())
        """,
    "raised": """
        if __name__ == '__main__':
            raise SystemExit(main())
        """,
    "fire": """
        import fire
        if __name__ == '__main__':
            fire.Fire(main)
        """,
    "fire of all": """
        import fire
        if __name__ == '__main__':
            fire.Fire()
        """,
    "fire that may be missing": """
        if __name__ == '__main__':
            from monai.utils import optional_import
            fire, _ = optional_import('fire')
            fire.Fire()
        """,
    "fire's function that may be missing": """
        from monai.utils import optional_import
        start, has_fire = optional_import('fire', name='Fire')
        if __name__ == '__main__' and has_fire:
            start(main)
        """,
    "fire of a table": """
        import fire
        if __name__ == '__main__':
            fire.Fire({'train': main})
        """,
    "fire of a class": """
        import fire
        class Jobs:
            def run(self):
                main()
        if __name__ == '__main__':
            fire.Fire(Jobs)
        """,
    "fire of an object": """
        import fire
        class Jobs:
            def __init__(self, rounds):
                self.rounds = rounds
            def run(self):
                main(self.rounds)
        if __name__ == '__main__':
            fire.Fire(Jobs(3))
        """,
    "docopt": """
        from docopt import docopt
        if __name__ == '__main__':
            options = docopt(__doc__)
            if options['train']:
                main(int(options['--rounds']))
        """,
    "absl": """
        from absl import app
        def start(argv):
            main()
        if __name__ == '__main__':
            app.run(start)
        """,
    "absl without a guard": """
        from absl import app
        def start(argv):
            main()
        app.run(start)
        """,
    "click": """
        import click
        @click.command()
        @click.option('--rounds', default=3)
        def start(rounds):
            main(rounds)
        if __name__ == '__main__':
            start()
        """,
    "click without a guard": """
        import click
        @click.command()
        def start():
            main()
        start()
        """,
    "click that returns": """
        import click
        @click.command()
        def start():
            main()
        if __name__ == '__main__':
            start.main(standalone_mode=False)
        """,
    "click group": """
        import click
        @click.group()
        def cli(): pass
        @cli.command()
        def start():
            main()
        if __name__ == '__main__':
            cli()
        """,
    "click added": """
        import click
        @click.group()
        def cli(): pass
        @click.command()
        def start():
            main()
        cli.add_command(start)
        if __name__ == '__main__':
            cli()
        """,
    "typer": """
        import typer
        if __name__ == '__main__':
            typer.run(main)
        """,
    "typer app": """
        import typer
        app = typer.Typer()
        @app.command()
        def start(rounds: int = 3):
            main(rounds)
        if __name__ == '__main__':
            app()
        """,
    "typer added": """
        import typer
        app = typer.Typer()
        app.command()(main)
        if __name__ == '__main__':
            app()
        """,
    "hydra": """
        import hydra
        @hydra.main(version_base=None, config_path='conf', config_name='config')
        def start(cfg):
            main(cfg.rounds)
        if __name__ == '__main__':
            start()
        """,
    "hydra called": """
        import hydra
        def start(cfg):
            main(cfg.rounds)
        if __name__ == '__main__':
            hydra.main(config_name='config')(start)()
        """,
    "tyro": """
        import tyro
        if __name__ == '__main__':
            tyro.cli(main)
        """,
    "tyro of settings": """
        import dataclasses, tyro
        @dataclasses.dataclass
        class Args:
            rounds: int = 3
        if __name__ == '__main__':
            args = tyro.cli(Args)
            main(args.rounds)
        """,
    "jsonargparse": """
        from jsonargparse import CLI
        if __name__ == '__main__':
            CLI(main)
        """,
    "jsonargparse by its module": """
        import jsonargparse.cli
        if __name__ == '__main__':
            jsonargparse.cli.CLI(main)
        """,
    "jsonargparse auto": """
        import jsonargparse
        if __name__ == '__main__':
            jsonargparse.auto_cli(main, as_positional=False)
        """,
    "defopt": """
        import defopt
        if __name__ == '__main__':
            defopt.run(main)
        """,
    "plac": """
        import plac
        if __name__ == '__main__':
            plac.call(main)
        """,
    "argh": """
        import argh
        if __name__ == '__main__':
            argh.dispatch_command(main)
        """,
    "argh commands": """
        import argh
        if __name__ == '__main__':
            argh.dispatch_commands([main])
        """,
    "cyclopts": """
        import cyclopts
        if __name__ == '__main__':
            cyclopts.run(main)
        """,
    "cyclopts app": """
        import cyclopts
        app = cyclopts.App()
        @app.default
        def start():
            main()
        if __name__ == '__main__':
            app()
        """,
    "draccus": """
        import draccus
        @draccus.wrap()
        def start(cfg: object):
            main()
        if __name__ == '__main__':
            start()
        """,
    "pyrallis": """
        import pyrallis
        @pyrallis.wrap()
        def start(cfg: object):
            main()
        if __name__ == '__main__':
            start()
        """,
    "sacred": """
        from sacred import Experiment
        ex = Experiment('x')
        @ex.capture
        def read_data(batch_size):
            return torch.utils.data.DataLoader(range(8), batch_size)
        @ex.automain
        def start():
            read_data()
            main()
        """,
    "sacred main": """
        from sacred import Experiment
        ex = Experiment('x')
        @ex.main
        def start():
            main()
        if __name__ == '__main__':
            ex.run_commandline()
        """,
    "accelerate": """
        from accelerate import notebook_launcher
        notebook_launcher(main, num_processes=1)
        """,
    "record": """
        from torch.distributed.elastic.multiprocessing.errors import record
        @record
        def start():
            main()
        if __name__ == '__main__':
            start()
        """,
    "submitit": """
        import submitit
        if __name__ == '__main__':
            executor = submitit.AutoExecutor(folder='log')
            job = executor.submit(main)
            job.result()
        """,
    "ray": """
        import ray
        @ray.remote(num_gpus=1)
        def start():
            main()
        if __name__ == '__main__':
            ray.get(start.remote())
        """,
    "wandb sweep": """
        import wandb
        if __name__ == '__main__':
            wandb.agent('id', function=main)
        """,
    "optuna": """
        import optuna
        def objective(trial):
            main()
            return 1.0
        if __name__ == '__main__':
            optuna.create_study().optimize(objective, n_trials=3)
        """,
    "asyncio": """
        import asyncio
        async def start():
            main()
        if __name__ == '__main__':
            asyncio.run(start())
        """,
    "thread": """
        import threading
        if __name__ == '__main__':
            worker = threading.Thread(target=main)
            worker.start()
            worker.join()
        """,
    "table of modes": """
        import argparse
        MODES = {'train': main, 'eval': print}
        if __name__ == '__main__':
            parser = argparse.ArgumentParser()
            parser.add_argument('mode', choices=sorted(MODES))
            MODES[parser.parse_args().mode]()
        """,
    "table without a guard": """
        import sys
        MODES = {'train': lambda: main(3), 'eval': print}
        MODES[sys.argv[1]]()
        """,
    "globals": """
        import argparse
        if __name__ == '__main__':
            parser = argparse.ArgumentParser()
            parser.add_argument('mode', default='main')
            globals()[parser.parse_args().mode]()
        """,
    "sub-parsers": """
        import argparse
        if __name__ == '__main__':
            parser = argparse.ArgumentParser()
            commands = parser.add_subparsers()
            one = commands.add_parser('train')
            one.set_defaults(func=lambda args: main(args.rounds))
            one.add_argument('--rounds', default=3, type=int)
            args = parser.parse_args()
            args.func(args)
        """,
    "guard turned": """
        if __name__ != '__main__':
            raise ImportError('a script')
        main()
        """,
    "guard within": """
        def start():
            if __name__ == '__main__':
                main()
        start()
        """,
    "caught": """
        if __name__ == '__main__':
            try:
                main()
            except KeyboardInterrupt:
                pass
        """,
    "partial": """
        from functools import partial
        if __name__ == '__main__':
            partial(main, 3)()
        """,
}
BEGIN = "from engine import train\ndef main(rounds: int = 3):\n    train(rounds)\n"


@pytest.mark.parametrize("way", STARTS)
def test_what_calls_the_first_function(way: str) -> None:
    files = {"train.py": BEGIN + dedent(STARTS[way]), "engine.py": ENGINE}
    assert_trains(followed("train.py", files))


def test_an_experiment_that_another_file_makes() -> None:
    start = "from engine import train\nfrom setup_of_all import ex\n@ex.automain\ndef start():\n    train(3)\n"
    made = "from sacred import Experiment\nex = Experiment('x')\n"
    assert_trains(followed("train.py", {"train.py": start, "engine.py": ENGINE, "setup_of_all.py": made}))


FABRIC = """
from engine import train
from lightning.fabric import Fabric

if __name__ == "__main__":
    Fabric(devices=2).launch(lambda fabric, rounds: train(rounds), 3)
"""


def test_a_function_that_fabric_launches() -> None:
    (program,) = followed("train.py", {"train.py": FABRIC, "engine.py": ENGINE})
    # Lightning is in charge of a part of it.
    assert (program.followed, program.training_loops) == (Followed.PARTLY, 1)
