"""Executing a program once more for the names at some places: from what is known, and in few evaluations."""

from pathlib import Path
from textwrap import dedent, indent

import pytest

from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.value import Const
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import Move
from gpudoctor.lint.events.process import EnvironmentWrite, InitGroup
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.interp import entry_execution, execution_state, launch_worlds, scope_snapshots
from gpudoctor.lint.interp.launch_worlds import programs_of, with_names
from gpudoctor.lint.program import Program
from gpudoctor.lint.questions.users_choice import by_choice
from gpudoctor.lint.source.project import ModuleFile, Project

SWITCHES = """
    import argparse, torch.distributed as dist
    parser = argparse.ArgumentParser()
    parser.add_argument("--distributed", action="store_true")
    parser.add_argument("--slurm", action="store_true")
    args = parser.parse_args()
    if args.distributed:
        dist.init_process_group("nccl")
    if args.slurm:
        dist.init_process_group("gloo")
    print(args.slurm)
    """
NO_NUMBER = """
    import argparse, torch.distributed as dist
    args = argparse.ArgumentParser().parse_known_args()[0]
    scale = args.scale * float("nan")
    if scale > 1:
        dist.init_process_group("nccl")
    print(scale)
    """

SPAWN = """
    import argparse, os, torch.distributed as dist, torch.multiprocessing as mp
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int)
    def worker(rank, args):
        dist.init_process_group("nccl", rank=rank, world_size=args.gpus)
    if __name__ == "__main__":
        args = parser.parse_args()
        ASK
        mp.spawn(worker, nprocs=args.gpus, args=(args,))
    """

ONE_OR_MORE = """
    import argparse, os, torch.distributed as dist, torch.multiprocessing as mp
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int)
    def worker(rank, args):
        for step in range(rank + 2):
            print(step)
    if __name__ == "__main__":
        args = parser.parse_args()
        print("RANK" in os.environ)
        if args.gpus == 1:
            worker(0, args)
        else:
            mp.spawn(worker, nprocs=args.gpus, args=(args,))
    """


class Executions:
    """The entry of a folder, executed as lint does, and how often that was begun."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project, self.begun = Project(str(folder / "train.py")), 0
        self.statements: list[int] = []
        self._file = folder / "train.py"
        run = entry_execution._run

        def counted(*arguments: object) -> bool:
            self.begun += 1
            try:
                return run(*arguments)  # type: ignore[arg-type]
            finally:
                self.statements.append(arguments[0].statements)  # type: ignore[attr-defined]

        monkeypatch.setattr(entry_execution, "_run", counted)

    def of(self, text: str, launch: str = "auto") -> list[Program]:
        self._file.write_text(dedent(text))
        return programs_of(self.entry, classify(self.entry, self.project), self.project, launch)

    def again(self, programs: list[Program]) -> list[Program]:
        """Once more, for the names at the last statement."""
        self.begun = 0
        place = self.entry.source.location(self.entry.source.tree.body[-1])
        return with_names(
            programs, self.entry, classify(self.entry, self.project), self.project, frozenset({place}), 10.0
        )

    @property
    def entry(self) -> ModuleFile:
        found = self.project.module_of(str(self._file))
        assert found is not None
        return found


@pytest.fixture
def executions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Executions:
    return Executions(tmp_path, monkeypatch)


@pytest.mark.parametrize("text", [SWITCHES, NO_NUMBER])
def test_it_begins_once_with_what_is_known(executions: Executions, text: str) -> None:
    programs = executions.of(text)
    assert executions.begun > len(programs)
    again = executions.again(programs)
    assert executions.begun == len(programs) == len(again)
    for first, second in zip(programs, again, strict=True):
        assert first.log == second.log
        assert (first.world, first.assumptions) == (second.world, second.assumptions)
        assert next(iter(second.names_before.values()))[0].keys() >= {"args", "dist"}


def test_what_is_no_number_switches_once(executions: Executions) -> None:
    (program,) = executions.of(NO_NUMBER)
    assert executions.begun == 2
    (group,) = program.events(InitGroup)
    assert not group.context.condition.literals


def test_looking_up_names_ends_by_count(executions: Executions, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = executions.of(SWITCHES)
    (whole,) = executions.again(programs)[0].names_before.values()
    assert "args.slurm" in whole[0]
    monkeypatch.setattr(scope_snapshots, "_MOST_EVALUATIONS", 0)
    (names,) = executions.again(programs)[0].names_before.values()
    assert names[0].keys() == {name for name in whole[0] if name.isidentifier()}


@pytest.mark.parametrize(
    ("ask", "begun"),
    [
        ("pass", 1),
        # In the world of a launcher this is known, in the other one it is not.
        ("print(os.environ.get('LOCAL_RANK'))", 2),
        # What one process does was followed as well: now there are several.
        ("size = 1 if args.gpus == 1 else 2", 2),
        # Of all that it has asked it learns at once.
        ("print(os.environ.get('LOCAL_RANK')); size = 1 if args.gpus == 1 else 2", 2),
        ("pass; size = args.gpus * 2", 1),
    ],
)
def test_spawning_begins_again_only_where_somebody_has_asked(executions: Executions, ask: str, begun: int) -> None:
    (program,) = executions.of(SPAWN.replace("ASK", ask))
    assert executions.begun == begun
    assert program.world is LaunchWorld.SPAWN
    (group,) = program.events(InitGroup)
    assert not group.context.condition.literals


MESH = """
    import argparse, torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensor-parallel", type=int, default=1)
    args = parser.parse_args()
    GROUP
    if args.tensor_parallel > 1:
        mesh = init_device_mesh("cuda", (args.tensor_parallel,))
    """


@pytest.mark.parametrize(("group", "begun"), [("dist.init_process_group('nccl')", 1), ("pass", 2)])
def test_a_mesh_of_a_group_that_is_there_switches_nothing_on(executions: Executions, group: str, begun: int) -> None:
    (program,) = executions.of(MESH.replace("GROUP", group))
    assert executions.begun == begun
    assert len(program.assumptions.switches) == begun - 1


WRAPPED = """
    import argparse, torch, torch.distributed as dist
    from torch.distributed.fsdp import fully_shard, FullyShardedDataParallel as FSDP
    from torch.nn.parallel import DistributedDataParallel as DDP
    parser = argparse.ArgumentParser()
    for name in ("--fsdp", "--ddp", "--old", "--teacher"):
        parser.add_argument(name, action="store_true")
    args = parser.parse_args()
    class Task:
        def __init__(self, model):
            self.model = model
        def wrap(self):
            self.model = DDP(self.model)
    class Distillation(Task):
        def wrap(self):
            self.model = DDP(self.model, static_graph=True)
    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 8).cuda()
    CHOICE
    """


@pytest.mark.parametrize(
    ("choice", "wraps", "assumed"),
    [
        ("model = FSDP(model) if args.fsdp else DDP(model)", 2, []),
        ("if args.fsdp: fully_shard(model)\n    else: model = DDP(model)", 2, []),
        ("task = Distillation(model) if args.teacher else Task(model)\n    task.wrap()", 2, []),
        ("if args.fsdp: model = FSDP(model)\n    elif args.ddp: model = DDP(model)", 1, [True]),
        ("if args.fsdp: print(1)\n    elif args.ddp: model = DDP(model)\n    else: fully_shard(model)", 2, [False]),
        ("if args.fsdp: model = FSDP(model)\n    else: print(1)", 1, [True]),
        # Of a choice inside of another one, that is followed on all sides, and the other one is decided.
        (
            "if args.fsdp:\n        FSDP(model) if args.old else fully_shard(model)\n    else: model = DDP(model)",
            2,
            [True],
        ),
        ("if args.fsdp:\n        model = FSDP(model) if args.old else DDP(model)\n    else: print(1)", 2, [True]),
        # Which of the two is known behind them.
        ("if args.fsdp: wrapped = FSDP(model)\n    else: wrapped = DDP(model)\n    if args.ddp: DDP(model)", 3, []),
    ],
)
def test_what_is_wrapped_on_all_sides_of_a_choice_switches_nothing_on(
    executions: Executions, choice: str, wraps: int, assumed: list[bool]
) -> None:
    (program,) = executions.of(WRAPPED.replace("CHOICE", choice))
    assert executions.begun == 1 + bool(assumed)
    assert len([*program.events(Wrap)]) == wraps
    assert [*program.assumptions.switches.values()] == assumed


@pytest.mark.parametrize("goes_on", ["for x in loader: print(x)", "for n in range(4): print(n)\n" * 900])
def test_a_side_of_a_choice_that_is_the_whole_program_is_followed_to_no_end(
    executions: Executions, goes_on: str
) -> None:
    side = f"model = FSDP(model); loader = torch.utils.data.DataLoader(range(8))\n{goes_on}\nlast = 1"
    choice = f"if args.fsdp:\n{indent(side, ' ' * 8)}\n    else: model = DDP(model)"
    (program,) = executions.of(WRAPPED.replace("CHOICE", choice))
    assert executions.begun == 2
    assert executions.statements[0] < executions.statements[1]
    assert [*program.assumptions.switches.values()] == [True]


TRAINING = """
    def NAME(model):
        model = DDP(model)
        for x in torch.utils.data.DataLoader(range(8)):
            model(x).sum().backward()
    """


def test_a_search_that_trains_again_and_again_is_no_other_training(executions: Executions) -> None:
    search = "\n        for _ in range(300): first(model)"
    choice = f"{TRAINING.replace('NAME', 'first')}if args.old: first(model)\n    else: {search}"
    (program,) = executions.of(WRAPPED.replace("CHOICE", choice))
    assert [*program.assumptions.switches.values()] == [True]


def test_which_of_two_trainings_it_is_switches_nothing_on(executions: Executions) -> None:
    trainings = TRAINING.replace("NAME", "first") + TRAINING.replace("NAME", "second")
    choice = f"{trainings}if args.old: first(model)\n    else: second(model)"
    (program,) = executions.of(WRAPPED.replace("CHOICE", choice))
    assert {event.context.function for event in program.events(Backward)} == {"first", "second"}
    assert not program.assumptions.switches


LONG = (
    """
    import argparse, torch
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="small"TYPE)
    args = parser.parse_args()
    print(args.model)
    """
    + 100 * "x = torch.ones(1)\n    "
)


TRAINED = "torch.ones(1, requires_grad=True).sum().backward(); optimizer.step()"


@pytest.mark.parametrize(
    ("model", "last", "begun"),
    [
        ('"small"', TRAINED, 2),
        # Nothing is chosen, or nothing is trained, which no choice changes.
        ("1, type=int", TRAINED, 1),
        ('"small"', "pass", 1),
    ],
)
def test_defaults_are_tried_behind_a_limit_only_where_something_is_chosen(
    executions: Executions, monkeypatch: pytest.MonkeyPatch, model: str, last: str, begun: int
) -> None:
    monkeypatch.setattr(execution_state, "MAX_BEFORE_TRAINING", 50)
    monkeypatch.setattr(execution_state, "MAX_STATEMENTS", 60)
    (program,) = executions.of(LONG.replace('"small"TYPE', model) + f"{last}\n", "torchrun")
    assert executions.begun == begun
    assert program.stops


@pytest.mark.parametrize(
    ("model", "first", "last", "early"),
    [
        # All that may be chosen is too much before anything is trained: with the default it is followed to its end.
        ('"small"', "pass", TRAINED, True),
        # Nothing is chosen, or it trains already, or nowhere.
        ("1, type=int", "pass", TRAINED, False),
        ('"small"', TRAINED, "pass", False),
        ('"small"', "pass", "pass", False),
    ],
)
def test_defaults_are_tried_early_where_nothing_is_trained_yet(
    executions: Executions, monkeypatch: pytest.MonkeyPatch, model: str, first: str, last: str, early: bool
) -> None:
    for module in (execution_state, launch_worlds):
        monkeypatch.setattr(module, "MAX_BEFORE_TRAINING", 50)
    text = LONG.replace('"small"TYPE', model).replace("print(args.model)", f"{first}; print(args.model == 'large')")
    (program,) = executions.of(f"{text}{last}\n", "torchrun")
    assert (executions.statements[0] == 51) == early
    assert executions.statements[-1] > 100
    assert not program.stops
    assert program.assumptions.at_defaults == early


def test_what_a_call_hands_on_is_chosen_also_where_the_default_stands_for_it(
    executions: Executions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (execution_state, launch_worlds):
        monkeypatch.setattr(module, "MAX_BEFORE_TRAINING", 50)
    shows = "def show(gpus): import os; os.environ['CUDA_VISIBLE_DEVICES'] = gpus\n    show(args.model)"
    text = LONG.replace("TYPE", "").replace("print(args.model)", shows)
    (program,) = executions.of(f"{text}{TRAINED}\n", "torchrun")
    (write,) = program.events(EnvironmentWrite)
    assert program.assumptions.at_defaults
    assert write.value.single == Const("small")
    assert by_choice(program, write, handed_on=True)
    assert not by_choice(program, write)


def test_a_class_that_others_derive_from_stands_for_no_other(
    executions: Executions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (execution_state, launch_worlds):
        monkeypatch.setattr(module, "MAX_BEFORE_TRAINING", 60)
    names = ["Base", *(f"Net{number}" for number in range(6))]
    body = "\n    def forward(self, x):\n        return x.square()\n"
    classes = "".join(f"class {each}({'nn.Module' if each == 'Base' else 'Base'}):{body}" for each in names)
    table = ", ".join(f"'{each}': {each}" for each in names)
    begin = "import argparse, torch\nfrom torch import nn\nparser = argparse.ArgumentParser()\n"
    chosen = f"parser.add_argument('--net')\nnet = {{{table}}}[parser.parse_args().net]()\n"
    calls = "net.cuda()\n" + "x = net(torch.ones(1))\n" * 12
    (program,) = executions.of(f"{begin}{classes}{chosen}{calls}{TRAINED}\n", "torchrun")
    assert program.assumptions.at_defaults
    moved = [event.subject for event in program.events(Move)]
    assert [each.cls.label for each in moved if isinstance(each, Module) and each.cls is not None] == ["Net0"]


def test_a_world_that_is_asked_for_is_kept(executions: Executions) -> None:
    assert executions.of(SPAWN.replace("ASK", "pass"), "torchrun") == []


NOISE = """
    import torch
    model, data = torch.nn.Linear(1, 1), torch.randn(8, 1)
    for batch in data:
        model(batch + torch.randn_like(batch) + torch.randn(batch.shape)).sum().backward()
    """


OWN_VARIABLE = """
    import os, torch
    folder = os.environ.get("OUTPUT") or os.getenv("TMPDIR", "/tmp")
    if "DEBUG" not in os.environ:
        torch.save(torch.nn.Linear(1, 1).state_dict(), folder)
    """


@pytest.mark.parametrize("text", [NOISE, OWN_VARIABLE])
def test_what_is_no_launchers_asks_nobody_how_many_processes_there_are(executions: Executions, text: str) -> None:
    (program,) = executions.of(text)
    assert program.world is LaunchWorld.SINGLE
    assert executions.begun == 1


IMPORTED_THERE = ONE_OR_MORE.replace(", torch.multiprocessing as mp", "").replace(
    "mp.spawn", "import torch.multiprocessing as mp; mp.spawn"
)


@pytest.mark.parametrize("text", [ONE_OR_MORE, IMPORTED_THERE])
def test_what_one_process_does_is_not_followed_before_several_are_started(executions: Executions, text: str) -> None:
    (program,) = executions.of(text)
    *before, last = executions.statements
    assert program.world is LaunchWorld.SPAWN
    # The worker is followed once, and what leads to its start each time.
    assert max(before) <= 10 < last
