"""A switch in the text of a program that starts its process group may be set otherwise: as an option may be given."""

from pathlib import Path
from textwrap import dedent

import pytest

from gpudoctor import api
from gpudoctor.lint.events.data_loading import MakeSampler
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.process import InitGroup
from tests.support.paper import execute

TRAINING = """
    import os, torch, torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    SWITCH
    if distributed:
        dist.init_process_group("nccl")
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    data = TensorDataset(torch.zeros(8, 2))
    sampler = DistributedSampler(data) if distributed else None
    model = torch.nn.Linear(2, 1).cuda()
    if distributed:
        model = torch.nn.parallel.DistributedDataParallel(model)
    OTHERWISE
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, sampler=sampler, shuffle=sampler is None)
    for epoch in range(3):
        for (batch,) in loader:
            optimizer.zero_grad()
            model(batch.cuda()).sum().backward()
            optimizer.step()
    """
OFF = "distributed = False"


def training(switch: str, otherwise: str = "") -> str:
    return dedent(TRAINING).replace("SWITCH", switch).replace("OTHERWISE", otherwise)


@pytest.mark.parametrize("switch", [OFF, "distributed: bool = False"])
def test_what_starts_the_group_is_followed(tmp_path: Path, switch: str) -> None:
    program = execute(tmp_path, training(switch), "auto").program
    assert program.world is LaunchWorld.TORCHRUN
    assert program.has(InitGroup)
    assert program.has(MakeSampler)
    assert program.trained_at


@pytest.mark.parametrize(
    "switch",
    [
        pytest.param(f"{OFF}\ndistributed = bool(0)", id="set again"),
        pytest.param(f"{OFF}\ndef other(distributed): ...", id="a parameter"),
    ],
)
def test_what_may_be_another_thing_is_what_stands_there(tmp_path: Path, switch: str) -> None:
    program = execute(tmp_path, training(switch), "auto").program
    assert (program.world, program.has(InitGroup)) == (LaunchWorld.SINGLE, False)


def test_what_starts_no_group_is_what_stands_there(tmp_path: Path) -> None:
    text = (
        training(OFF)
        .replace('dist.init_process_group("nccl")', "dist.is_initialized()")
        .replace("DistributedDataParallel", "Linear")
    )
    program = execute(tmp_path, text, "auto").program
    assert not program.has(InitGroup)
    assert not program.assumptions.switches


def test_data_parallel_is_what_it_does_as_it_stands(tmp_path: Path) -> None:
    text = training(OFF, "else:\n    model = torch.nn.DataParallel(model)")
    worlds = [program.world for program in execute(tmp_path, text, "auto").programs]
    assert worlds == [LaunchWorld.TORCHRUN, LaunchWorld.SINGLE]


def test_a_finding_says_where_the_switch_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(training(OFF), encoding="utf-8")
    (found,) = (each for each in api.lint_paths(["train.py"]).findings if each.code == "GPU302")
    assert [(each.location.line, each.message) for each in found.related][-1] == (
        5,
        "several processes train where `distributed` is `True`",
    )
