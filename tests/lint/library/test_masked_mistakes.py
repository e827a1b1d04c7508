"""What real programs hid planted mistakes behind: variables written on one path, models of several classes, their own
optimizers, and what their forwards do together."""

import pytest

from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.placement import Mixed
from gpudoctor.lint.events.training_step import ClearGradients, OptimizerStep
from gpudoctor.lint.source.project import ModuleFile, Project


def test_a_variable_that_is_written_on_one_path_is_that_of_the_launcher_on_the_other(paper):
    paper("""
        import os
        if "SLURM_JOB_ID" in os.environ:
            rank = int(os.environ["SLURM_PROCID"])
            os.environ["RANK"] = str(rank)
            os.environ["COLOUR"] = "red"
        reveal(os.environ["RANK"])  #: global rank as text
        reveal(int(os.environ["RANK"]))  #: global rank
        reveal("RANK" in os.environ)  #: True
        reveal(os.environ.get("COLOUR", "blue"))  #: 'red' if 'SLURM_JOB_ID' in os.environ | \
'blue' if not ('SLURM_JOB_ID' in os.environ)
        """)


def test_what_a_body_has_written_holds_where_nothing_was_caught(paper):
    paper("""
        import company
        try:
            x = company.first()
            y = 1
        except KeyError:
            y = 2
            reveal(y)  #: 2
        reveal(y)  #: 1 if not (an exception is caught) | 2 if an exception is caught
        """)


def test_attributes_of_an_object_that_is_a_dictionary(paper):
    found = paper("""
        import yaml
        class Settings:
            def __init__(self, entries):
                self.__dict__ = entries
        settings = Settings(yaml.safe_load(open("settings.yaml")))
        nets = {"a": 1, "b": 2}
        reveal(nets[settings.net])  #: 1 if settings.net == 'a' | 2 if not (settings.net == 'a')
        if settings.net == "a":
            reveal(nets[settings.net])  #: 1
        """)
    assert found.program.lost == ()


def test_a_file_with_the_name_of_its_folder_does_not_import_itself(tmp_path):
    folder = tmp_path / "train"
    folder.mkdir()
    for name in ("train.py", "tools.py"):
        (folder / name).write_text("from train import tools\n")
    (tmp_path / "pyproject.toml").touch()
    project = Project(str(folder / "train.py"))
    entry = project.module_of(str(folder / "train.py"))
    assert entry is not None
    assert project.find(entry, "train.tools") is not None
    assert not isinstance(project.find(entry, "train"), ModuleFile)


def test_a_module_is_asked_for_a_name_by_its_own_method(paper):
    paper("""
        import importlib
        reveal(importlib.import_module("nets").__getattribute__("Net"))  #: Net
        # file: nets.py
        class Net:
            pass
        """)


def test_a_scaler_steps_one_of_two_optimizers(paper):
    found = paper("""
        import argparse, torch
        args = argparse.ArgumentParser().parse_args()
        model = torch.nn.Linear(2, 2)
        if args.plain:
            optimizer = torch.optim.SGD(model.parameters())
        else:
            optimizer = torch.optim.AdamW(model.parameters())
        torch.amp.GradScaler().step(optimizer)
        """)
    assert [str(event.condition) for event in found.events(OptimizerStep)] == ["args.plain", "not (args.plain)"]


def test_a_switch_that_is_no_matter_of_ranks_is_as_it_was_where_one_process_has_all_gpus(paper):
    found = paper(
        """
        import argparse, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--local_rank", type=int, default=-1)
        parser.add_argument("--no_cuda", action="store_true")
        args = parser.parse_args()
        if args.local_rank == -1 or args.no_cuda:
            device = torch.device("cuda" if torch.cuda.is_available() and not args.no_cuda else "cpu")
        else:
            device = torch.device("cuda", args.local_rank)
            torch.distributed.init_process_group("nccl")
        model = torch.nn.Linear(2, 2).to(device)
        if args.local_rank == -1:
            model = torch.nn.DataParallel(model)
        model(torch.zeros(2, 2).cuda())
        """,
        "auto",
    )
    alone = found.programs[1]
    (call,) = alone.events(Forward)
    assert call.device is not None
    assert [str(each) for each in call.device] == ["Device(cuda)"]


UNSEEN = """
    import company, os, torch
    from torch.nn.parallel import DistributedDataParallel
    torch.distributed.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    net = company.build()
    net = DistributedDataParallel(net.to(rank){ids})
    loader = torch.utils.data.DataLoader(torchvision.datasets.MNIST("."))
    for images, labels in loader:
        torch.nn.functional.cross_entropy(net(images), labels)
"""


@pytest.mark.parametrize(("ids", "places"), {", device_ids=[rank]": 1, "": 0}.items())
def test_a_model_that_was_not_seen_is_on_the_gpu_that_ddp_is_given(paper, ids: str, places: int):
    found = paper("    import torchvision" + UNSEEN.format(ids=ids))
    assert len({event.location for event in found.events(Mixed)}) == places


TALKING = """
    import torch, torch.distributed as dist
    class Gather(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            {gather}
            return x
        @staticmethod
        def backward(ctx, gradient):
            return gradient
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)
        def forward(self, x):
            {line}
            return self.layer(x)
    dist.init_process_group("nccl")
    net = torch.nn.parallel.DistributedDataParallel(Net().cuda(), device_ids=[0])
    net(torch.zeros(2, 2))
"""
ALONE = "if dist.get_rank() == 0: dist.all_reduce(x)"


@pytest.mark.parametrize(
    ("gather", "line", "of_some"),
    [
        ("pass", "dist.all_reduce(x)", False),
        ("pass", ALONE, True),
        (ALONE, "x = Gather.apply(x)", True),
        ("dist.all_reduce(x)", "x = Gather.apply(x)", False),
    ],
)
def test_collectives_inside_a_forward_are_told_with_their_ranks(paper, gather: str, line: str, of_some: bool):
    events = paper(TALKING.format(gather=gather, line=line)).events(Collective)
    assert [bool(event.rank_guards) for event in events] == [of_some]


def test_gradients_that_are_cleared_by_the_name_of_their_parameter(paper):
    found = paper("""
        import torch
        net = torch.nn.Linear(2, 2)
        for name, parameter in net.named_parameters():
            if "last" in name:
                parameter.grad = None
        other = torch.nn.Linear(2, 2)
        for name, parameter in other.named_parameters():
            parameter.grad = None
        """)
    assert {(event.location.line, event.named) for event in found.events(ClearGradients)} == {(6, True), (9, False)}


def test_a_model_of_the_project_on_a_base_of_transformers(paper):
    found = paper("""
        import torch, transformers
        from transformers.modeling_utils import PreTrainedModel
        class Net(PreTrainedModel):
            def __init__(self, config, pooled=True):
                super().__init__(config)
                self.config = config
                self.layer, self.pooled = torch.nn.Linear(config.width, 2), pooled
        class Words(transformers.PreTrainedTokenizer):
            pass
        class Whole(torch.nn.Module):
            def __init__(self):
                super().__init__()
                config = transformers.BertConfig.from_json_file("config.json")
                self.net = Net.from_pretrained("net", config=config, pooled=False)
                self.words = Words.from_pretrained("net")
        torch.distributed.init_process_group("nccl")
        whole = Whole()
        reveal(whole.net)  #: Net
        reveal(whole.net.pooled)  #: False
        torch.nn.parallel.DistributedDataParallel(whole, device_ids=[0])
        """)
    device = found.event(Wrap).model_device
    assert str(device.single) == "Device(cpu)"


OWN = """
    import torch
    from torch.optim.optimizer import Optimizer
    class Own(Optimizer):
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    state["average"].mul_(0.9).add_(p.grad)
                    first = p.grad.new().resize_as_(p.grad).zero_()
    net = torch.nn.Linear(2, 2)
    optimizer = Own(net.parameters(), {})
    for step in range(100):
        net(torch.zeros(1, 2)).sum().backward()
        optimizer.step()
"""


def test_the_arithmetic_of_an_own_optimizer_clears_nothing(paper):
    found = paper(OWN)
    assert found.events(OptimizerStep)
    assert not found.events(ClearGradients)
    assert found.program.lost == ()
    assert found.events(Forward)


def test_the_numbers_of_a_parameter_are_no_gradient(paper):
    found = paper("""
        import torch
        from torch import nn
        def init(nets):
            for net in nets:
                for part in net.modules():
                    if isinstance(part, nn.Linear):
                        part.bias.data.zero_()
        def clear(nets):
            for net in nets:
                for part in net.modules():
                    part.bias.grad.data.zero_()
        first, second = nn.Linear(2, 2), nn.Linear(2, 1)
        init([first, second])
        clear([first, second])
    """)
    assert {event.location.line for event in found.events(ClearGradients)} == {12}
