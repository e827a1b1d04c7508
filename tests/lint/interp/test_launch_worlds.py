"""Launch worlds: torchrun, spawn and single, each program executed as it is meant to be started."""

import textwrap

import pytest

from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import InitGroup, Spawn
from gpudoctor.lint.interp import entry_execution

SPAWNED = {
    "mp.spawn": """
        import torch.multiprocessing as mp, torch.distributed as dist
        def worker(rank, world_size, args):
            reveal(rank)  #: local rank
            reveal((world_size, args))  #: (device count, 'options')
            dist.init_process_group("nccl", rank=rank, world_size=world_size)
        if __name__ == "__main__":
            import torch
            n = torch.cuda.device_count()
            mp.spawn(worker, args=(n, "options"), nprocs=n)
        """,
    "a spawned method of an object": """
        import torch.multiprocessing as mp
        class Job:
            def __init__(self, size):
                self.size = size
            def run(self, rank):
                reveal((rank, self.size))  #: (local rank, 4)
        if __name__ == "__main__":
            job = Job(4)
            mp.spawn(job.run, nprocs=4)
        """,
    "spawn in a helper file": """
        from launch import start
        def main(rank):
            reveal(rank)  #: local rank
        if __name__ == "__main__":
            start(main)
        # file: launch.py
        import torch
        import torch.multiprocessing as mp
        def start(target, *args):
            mp.spawn(target, args=args, nprocs=torch.cuda.device_count(), join=True)
        """,
    "the ImageNet way": """
        import argparse, os
        import torch, torch.nn as nn, torch.multiprocessing as mp, torch.distributed as dist
        parser = argparse.ArgumentParser()
        parser.add_argument("--world-size", default=-1, type=int)
        parser.add_argument("--rank", default=-1, type=int)
        parser.add_argument("--gpu", default=None, type=int)
        parser.add_argument("--multiprocessing-distributed", action="store_true")
        def main():
            args = parser.parse_args()
            args.distributed = args.world_size > 1 or args.multiprocessing_distributed
            n = torch.cuda.device_count()
            if args.multiprocessing_distributed:
                args.world_size = n * args.world_size
                mp.spawn(worker, nprocs=n, args=(n, args))
            else:
                worker(args.gpu, n, args)
        def worker(gpu, n, args):
            args.gpu = gpu
            if args.distributed:
                if args.multiprocessing_distributed:
                    args.rank = args.rank * n + gpu
                dist.init_process_group("nccl", world_size=args.world_size, rank=args.rank)
            model = nn.Linear(2, 2)
            if args.distributed:
                if args.gpu is not None:
                    torch.cuda.set_device(args.gpu)
                    model = nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[args.gpu])
                else:
                    model = nn.parallel.DistributedDataParallel(model.cuda())
            reveal(args.gpu)  #: local rank
            reveal(args.rank)  #: global rank
            reveal(model)  #: DistributedDataParallel(Linear)
        if __name__ == "__main__":
            main()
        """,
    "as many as an option or the settings say, one in the same process": """
        import argparse, torch.multiprocessing as mp, torch.distributed as dist
        from hydra import compose
        def worker(rank, size):
            dist.init_process_group("nccl", rank=rank, world_size=size)
            reveal(rank)  #: local rank
        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--gpus", type=int)
            args = parser.parse_args()
            gpus = args.gpus if args.gpus is not None else compose(config_name="train").gpus
            if gpus == 1:
                worker(0, 1)
            else:
                mp.start_processes(worker, args=(gpus,), nprocs=gpus)
        """,
    "by a cluster, one in the same process, or by a function that a name means": """
        import argparse, random, submitit, torch.multiprocessing as mp, torch.distributed as dist
        from hydra import compose
        def worker(rank, size):
            dist.init_process_group("nccl", rank=rank, world_size=size)
            reveal(rank)  #: local rank
        def job(size):
            worker(submitit.JobEnvironment().global_rank, size)
        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--gpus", type=int)
            parser.add_argument("--cluster", action="store_true")
            args = parser.parse_args()
            gpus = args.gpus if args.gpus is not None else compose(config_name="train").gpus
            port = random.randint(1000, 2000)
            if args.cluster:
                submitit.AutoExecutor(folder="logs").submit(job, gpus)
            elif gpus == 1:
                worker(0, 1)
            else:
                start = mp.start_processes
                start(worker, args=(gpus,), nprocs=gpus)
        """,
    "processes in a loop": """
        import torch.multiprocessing as mp, torch.distributed as dist
        def worker(rank, size):
            reveal((rank, size))  #: (local rank, 8)
            dist.init_process_group("gloo", rank=rank, world_size=size)
        if __name__ == "__main__":
            for rank in range(8):
                mp.Process(target=worker, args=(rank, 8)).start()
        """,
    "processes of several nodes in a loop": """
        import argparse, torch, torch.distributed as dist
        from torch.multiprocessing import Process
        def worker(rank, size, args):
            reveal(args.local_rank)  #: local rank
            dist.init_process_group("nccl", rank=rank, world_size=size)
            if rank == 0:
                reveal()  #: rank == 0
        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--gpus", type=int, default=1)
            parser.add_argument("--node", type=int, default=0)
            parser.add_argument("--local_rank", type=int, default=0)
            args = parser.parse_args()
            if args.gpus > 1:
                for rank in range(args.gpus):
                    args.local_rank = rank
                    Process(target=worker, args=(rank + args.node * args.gpus, 8, args)).start()
            else:
                worker(0, 1, args)
        """,
}


@pytest.mark.parametrize("source", SPAWNED.values(), ids=SPAWNED)
def test_programs_that_start_their_own_processes(paper, source: str):
    found = paper(source, launch="auto")
    assert found.program.world is LaunchWorld.SPAWN
    assert found.program.distributed
    assert all(event.guarded for event in found.events(Spawn))


def test_the_parent_is_one_process_and_its_children_are_many(paper):
    found = paper(
        """
        import torch, torch.multiprocessing as mp
        def worker(rank):
            torch.save({}, "child.pt")
        if __name__ == "__main__":
            torch.save({}, "parent.pt")
            mp.spawn(worker, nprocs=2)
        """,
        launch="auto",
    )
    parent, child = found.events(Save)
    assert found.program.by_one_process(parent)
    assert not found.program.by_one_process(child)
    assert found.program.by_every_rank(child)


def test_a_spawn_outside_of_the_main_guard_is_seen(paper):
    found = paper(
        """
        import torch.multiprocessing as mp
        def worker(rank):
            pass
        mp.spawn(worker, nprocs=2)
        """,
        launch="auto",
    )
    assert not found.event(Spawn).guarded


TORCHRUN = {
    "ranks from the environment": """
        import os, torch, torch.distributed as dist
        dist.init_process_group("nccl")
        local = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(local)
        reveal((dist.get_rank(), local, dist.get_world_size()))  #: (global rank, local rank, world size)
        """,
    "the local rank from the global one": """
        import torch, torch.distributed as dist
        dist.init_process_group("nccl")
        reveal(dist.get_rank() % torch.cuda.device_count())  #: local rank
        reveal(dist.get_rank() // torch.cuda.device_count())  #: node rank
        """,
    "SLURM where torchrun did not start it": """
        import os, torch, torch.distributed as dist
        if "RANK" in os.environ:
            rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
        elif "SLURM_PROCID" in os.environ:
            rank, local = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_LOCALID"])
        else:
            raise SystemExit("not distributed")
        dist.init_process_group("nccl", rank=rank)
        reveal((rank, local))  #: (global rank, local rank)
        """,
    "a rank that starts helpers": """
        import os, torch, torch.distributed as dist, torch.multiprocessing as mp
        def feed(number, queue):
            while True:
                queue.put(torch.full((1,), number).cuda())
        try:
            dist.init_process_group("nccl")
        except Exception:
            os.environ["RANK"] = "0"
        for number in range(4):
            mp.Process(target=feed, args=(number, mp.Queue())).start()
        rank = dist.get_rank()
        reveal(rank)  #: global rank
        """,
    "jobs of submitit": """
        import submitit
        import torch.distributed as dist
        class Trainer:
            def __init__(self, lr):
                self.lr = lr
            def __call__(self):
                job = submitit.JobEnvironment()
                reveal((self.lr, job.local_rank, job.num_tasks))  #: (0.1, local rank, world size)
                dist.init_process_group("nccl", rank=job.global_rank, world_size=job.num_tasks)
        executor = submitit.AutoExecutor(folder="logs")
        executor.update_parameters(nodes=2)
        executor.submit(Trainer(0.1))
        """,
    "SLURM alone": """
        import os, torch, torch.distributed as dist
        rank = int(os.environ["SLURM_PROCID"])
        size = int(os.environ["SLURM_NTASKS"])
        dist.init_process_group("nccl", rank=rank, world_size=size)
        reveal((rank, size))  #: (global rank, world size)
        reveal(rank % torch.cuda.device_count())  #: local rank
        """,
    "a switch that the world size decides": """
        import os, torch.distributed as dist
        distributed = int(os.environ.get("WORLD_SIZE", "1")) > 1
        if distributed:
            dist.init_process_group("nccl")
        reveal(distributed)  #: True
        """,
    "a switch that the user sets": """
        import argparse, torch.distributed as dist
        parser = argparse.ArgumentParser()
        parser.add_argument("--dist", action="store_true")
        args = parser.parse_args()
        if args.dist:
            dist.init_process_group("nccl")
        if not args.dist:
            reveal(0)  #: never
        reveal(args.dist)  #: setting args.dist
        reveal(1 if args.dist else 0)  #: 1
        reveal()  #: always
        """,
    "a switch inside of a helper": """
        import argparse
        from helpers import setup
        args = argparse.ArgumentParser().parse_args()
        setup(args)
        reveal(args.rank)  #: global rank
        # file: helpers.py
        import torch.distributed as dist
        def setup(args):
            if args.backend != "none" and not args.only:
                dist.init_process_group(args.backend)
                args.rank = dist.get_rank()
            else:
                args.rank = 0
        """,
    "a local rank of minus one": """
        import argparse, torch, torch.distributed as dist
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=-1)
        args = parser.parse_args()
        if args.local_rank != -1:
            torch.cuda.set_device(args.local_rank)
            dist.init_process_group("nccl")
            reveal(args.local_rank)  #: local rank
        else:
            reveal(0)  #: never
        """,
    "a local rank above minus one": """
        import argparse, torch, torch.distributed as dist
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=-1)
        args = parser.parse_args()
        if args.local_rank > -1:
            dist.init_process_group("nccl")
        elif torch.cuda.is_available():
            reveal(0)  #: never
        if -1 < args.local_rank:
            reveal(args.local_rank)  #: local rank
        else:
            reveal(0)  #: never
        """,
}


@pytest.mark.parametrize("source", TORCHRUN.values(), ids=TORCHRUN)
def test_programs_that_a_launcher_starts(paper, source: str):
    found = paper(source, launch="auto")
    assert found.program.world is LaunchWorld.TORCHRUN
    assert found.program.distributed
    assert not found.event(InitGroup).condition


def test_a_program_for_one_process_runs_in_the_single_world(paper):
    found = paper(
        """
        import torch, torch.nn as nn
        reveal(torch.cuda.device_count() > 1)  #: True
        model = nn.DataParallel(nn.Linear(2, 2).cuda())
        reveal(model)  #: DataParallel(Linear)
        """,
        launch="auto",
    )
    assert found.program.world is LaunchWorld.SINGLE
    assert not found.program.distributed


@pytest.mark.parametrize(
    ("guard", "rank", "world"),
    [("if True", "0", LaunchWorld.SINGLE), ("if __name__ == '__main__'", "global rank", LaunchWorld.TORCHRUN)],
)
def test_what_runs_tests_is_one_process(paper, guard: str, rank: str, world: LaunchWorld):
    """What is tested may be made for several, and would take part in a group; a test may be a program as well."""
    found = paper(
        f"""
        import unittest
        import torch.distributed as dist
        class TrainingTest(unittest.TestCase):
            pass
        {guard}:
            dist.init_process_group("nccl")
            reveal(dist.get_rank())  #: {rank}
        """,
        launch="auto",
    )
    assert found.program.world is world


def test_a_program_for_both_is_executed_in_each(paper):
    found = paper(
        """
        import argparse, torch.nn as nn, torch.distributed as dist
        args = argparse.ArgumentParser().parse_args()
        model = nn.Linear(2, 2).cuda()
        if args.distributed:
            dist.init_process_group("nccl")
            model = nn.parallel.DistributedDataParallel(model)
        else:
            model = nn.DataParallel(model)
        """,
        launch="auto",
    )
    kinds = {program.world: [event.kind for event in program.events(Wrap)] for program in found.programs}
    assert kinds == {LaunchWorld.TORCHRUN: [WrapperKind.DDP], LaunchWorld.SINGLE: [WrapperKind.DATA_PARALLEL]}
    assert all(program.worlds == {LaunchWorld.TORCHRUN, LaunchWorld.SINGLE} for program in found.programs)


MENTIONS = {
    "FullyShardedDataParallel": """
        import torch, torch.distributed as dist
        from torch.distributed.fsdp import FullyShardedDataParallel
        if __name__ == "__main__":
            dist.init_process_group("nccl")
        """,
    "a comment": """
        import torch.distributed as dist
        if __name__ == "__main__":
            dist.init_process_group("nccl")  # unlike DataParallel
        """,
}


@pytest.mark.parametrize("source", MENTIONS.values(), ids=list(MENTIONS))
def test_a_name_that_only_ends_like_data_parallel_is_no_world_of_its_own(paper, monkeypatch, source: str):
    executed = _worlds_begun(monkeypatch)
    paper(source, launch="auto")
    assert executed == [LaunchWorld.TORCHRUN]


def test_with_a_process_group_the_single_world_ends_where_it_is_made(paper, monkeypatch):
    executed = _worlds_begun(monkeypatch)
    read = paper(
        """
        import torch.nn as nn, torch.distributed as dist
        if __name__ == "__main__":
            dist.init_process_group("nccl")
            model = nn.DataParallel(nn.Linear(1, 1))
        """,
        launch="auto",
    )
    assert [each.world for each in read.programs] == [LaunchWorld.TORCHRUN]
    assert executed == [LaunchWorld.TORCHRUN, LaunchWorld.SINGLE]


def test_what_leads_to_a_spawn_is_known_when_its_world_begins(paper, monkeypatch):
    """What is done with one process stands before it, and may take as long as all the rest."""
    executed = _worlds_begun(monkeypatch)
    read = paper(
        """
        import argparse, os, torch.distributed as dist, torch.multiprocessing as mp
        def worker(rank, debug):
            dist.init_process_group("nccl", rank=rank, world_size=4)
        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--debug", action="store_true")
            args = parser.parse_args()
            print("LOCAL_RANK" in os.environ)
            if args.debug:
                print("debug")
            else:
                mp.spawn(worker, args=(args.debug,), nprocs=4)
        """,
        launch="auto",
    )
    assert [each.world for each in read.programs] == [LaunchWorld.SPAWN]
    assert executed == [LaunchWorld.TORCHRUN, LaunchWorld.SPAWN]


def _worlds_begun(monkeypatch) -> list[LaunchWorld]:
    begun: list[LaunchWorld] = []

    class Noting(entry_execution.Interpreter):
        def __init__(self, project, world, assumed) -> None:
            begun.append(world)
            super().__init__(project, world, assumed)

    monkeypatch.setattr(entry_execution, "Interpreter", Noting)
    return begun


@pytest.mark.parametrize(
    ("launch", "shown"), [("torchrun", "global rank"), ("spawn", "global rank"), ("single", "setting RANK")]
)
def test_the_user_may_say_how_it_is_launched(paper, launch: str, shown: str):
    found = paper(
        f"""
        import os
        rank = os.environ["RANK"]
        reveal(rank)  #: {shown}{"" if launch == "single" else " as text"}
        """,
        launch=launch,
    )
    assert found.program.world is LaunchWorld(launch)


def test_a_file_without_an_entry_is_read_function_by_function(paper):
    found = paper(
        """
        import torch
        class Trainer:
            def __init__(self, model):
                self.model = model
            def save(self, path):
                reveal(self.model)  #: setting model
                torch.save(self.model.state_dict(), path)
        def wrap(model):
            reveal(model)  #: setting model
            return torch.nn.parallel.DistributedDataParallel(model)
        """,
        launch="auto",
    )
    assert not found.program.whole
    assert found.event(Wrap).kind is WrapperKind.DDP
    assert not found.program.by_every_rank(found.event(Save))


def test_a_trainer_in_a_file_of_its_own_is_read_in_full(paper):
    """Its `train` is not hidden by `self.model.train()`, and who has a DDP model has a process group."""
    paper(
        """
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel as DDP
        class Trainer:
            def __init__(self, model):
                self.model = DDP(model)
            def train(self):
                self.model.train()
                reveal(dist.is_initialized())  #: True
        """
    )


@pytest.mark.parametrize("group", ['"gloo", rank=0, world_size=1', '"fake", rank=0, world_size=64'])
def test_a_group_of_one_is_one_process(paper, group: str):
    source = f"""
        import torch, torch.distributed as dist
        dist.init_process_group({group})
        mesh = torch.distributed.device_mesh.init_device_mesh("cuda", (1,))
        """
    assert [program.world for program in paper(source, launch="auto").programs] == [LaunchWorld.SINGLE]


def test_a_branch_for_one_process_is_off_where_several_are_started(paper):
    """`world_size=1` turns nothing on, though it is met before what starts the others."""
    found = paper(
        """
        import argparse, torch, torch.distributed as dist, torch.multiprocessing as mp
        def worker(rank, world_size):
            reveal(rank)  #: local rank
            dist.init_process_group("nccl", rank=rank, world_size=world_size)
            torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
        if __name__ == "__main__":
            parser = argparse.ArgumentParser()
            parser.add_argument("--debug", action="store_true")
            if parser.parse_args().debug:
                worker(rank=0, world_size=1)
            else:
                for rank in range(torch.cuda.device_count()):
                    mp.Process(target=worker, args=(rank, torch.cuda.device_count())).start()
        """,
        launch="auto",
    )
    assert [program.world for program in found.programs] == [LaunchWorld.SPAWN]


def test_a_program_that_starts_others_only_as_one_process_is_followed(paper):
    """Under torchrun it goes another way, on which there is nothing of several processes."""
    found = paper(
        """
        import os, torch, torch.distributed as dist, torch.multiprocessing as mp
        def worker(rank):
            reveal(rank)  #: local rank
            dist.init_process_group("nccl", rank=rank, world_size=torch.cuda.device_count())
        if __name__ == "__main__":
            if "RANK" not in os.environ:
                mp.spawn(worker, nprocs=torch.cuda.device_count())
        """,
        launch="auto",
    )
    assert [program.world for program in found.programs] == [LaunchWorld.SPAWN]


def test_a_function_that_the_project_starts_by_name_is_the_program(paper, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n\n[project.scripts]\ngo = "train:main"\n')
    found = paper(
        """
        import click
        import torch.distributed as dist
        @click.command()
        @click.option("--lr")
        def main(lr):
            reveal(lr)  #: setting lr
            dist.init_process_group("nccl")
        def helper(x):
            reveal(x)  #: never
        """,
        launch="auto",
    )
    assert found.program.whole
    assert found.program.world is LaunchWorld.TORCHRUN


def test_no_command_of_a_project_is_started_beside_another(paper, tmp_path):
    commands = 'go = "train:main"\ntest = "train:check"\n'
    (tmp_path / "pyproject.toml").write_text(f'[project]\nname = "x"\n\n[project.scripts]\n{commands}')
    found = paper(
        """
        import torch.distributed as dist
        def main():
            reveal()  #: main is chosen
            dist.init_process_group("nccl")
        def check():
            reveal()  #: not (main is chosen)
        """,
        launch="auto",
    )
    assert found.program.world is LaunchWorld.TORCHRUN


@pytest.mark.parametrize(
    ("text", "test"),
    [
        ("def work(gpu, n): pass\nmp.spawn(work, args=(2,), nprocs=2)", "gpu == 0"),
        (
            "def work(n):\n    torch.cuda.set_device(n)\nif __name__ == '__main__':\n"
            "    for n in range(2):\n        p = mp.Process(target=work, args=(n,))\n        p.start()",
            "rank == 0",
        ),
        ("def work(gpu): torch.distributed.init_process_group('nccl')\nmp.spawn(work, nprocs=2)", ""),
        ("import company\ndef work(gpu): company.init_dist(gpu)\nmp.spawn(work, nprocs=2)", ""),
        ("torch.distributed.init_process_group('nccl')", ""),
    ],
)
def test_processes_without_a_group_are_asked_for_their_number(paper, text: str, test: str):
    found = paper(f"import torch, torch.multiprocessing as mp\n{text}\n", launch="auto")
    assert found.program.first_worker == test


@pytest.mark.parametrize(
    ("group", "launcher"),
    [
        ("dist.init_process_group('nccl')", ""),
        ("dist.init_process_group('nccl', rank=int(os.environ['RANK']), world_size=2)", ""),
        ("dist.init_process_group('nccl', rank=args.rank, world_size=args.n)", "options"),
        ("dist.init_process_group('nccl', rank=int(os.environ['SLURM_PROCID']), world_size=2)", "slurm"),
        ("os.environ['RANK'] = str(MPI.COMM_WORLD.Get_rank())\ndist.init_process_group('nccl')", "mpi"),
        (
            "rank = int(os.environ['OMPI_COMM_WORLD_RANK']) if args.mpi else int(os.environ['RANK'])\n"
            "dist.init_process_group('nccl', rank=rank, world_size=2)",
            "",
        ),
    ],
)
def test_what_starts_the_processes(paper, group: str, launcher: str):
    text = """
    import argparse, os
    import torch.distributed as dist
    from mpi4py import MPI
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--n", type=int, default=1)
    parser.add_argument("--mpi", action="store_true")
    args = parser.parse_args()
    """
    found = paper(textwrap.dedent(text) + group, launch="auto")
    assert [each.launcher for each in found.programs] == [launcher]


def test_who_asks_for_a_launch_says_how_it_is_started(paper) -> None:
    """A Trainer runs as one process and as several, and nothing else shows which."""
    source = """
        from transformers import AutoModel, Trainer, TrainingArguments
        Trainer(AutoModel.from_pretrained("gpt2"), TrainingArguments("out"), train_dataset=[]).train()
        """
    assert paper(source, launch="torchrun").program.launched_in_several
    assert not any(each.launched_in_several for each in paper(source, launch="auto").programs)


def test_of_several_functions_the_one_by_default_is_followed_first(paper):
    """Both wrap a model: which of them the program is about, its default says."""
    found = paper(
        """
        import argparse, torch.nn as nn
        from torch.nn.parallel import DistributedDataParallel
        parser = argparse.ArgumentParser()
        parser.add_argument("--distill", type=int, default=0)
        args = parser.parse_args()
        def distilled():
            return DistributedDataParallel(nn.Linear(2, 2).cuda())
        def plain():
            return DistributedDataParallel(nn.Linear(2, 2).cuda())
        train = distilled if args.distill else plain
        train()
        """,
        launch="torchrun",
    )
    assert [each.location.line for each in found.events(Wrap)] == [10, 8]
