"""Whole training programs: what is wrapped, stepped and cleared, in the styles in which people write them."""

import pytest

from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.events.collective import LeaveLoop
from gpudoctor.lint.events.data_loading import Iterate, MakeLoader, MakeSampler, SetEpoch
from gpudoctor.lint.events.files import Load, Save
from gpudoctor.lint.events.host_waits import ClockRead, DebugFlag, Elapsed, HostSync
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.placement import Mixed
from gpudoctor.lint.events.training_step import Accumulated, Backward, ClearGradients, GradientSync, OptimizerStep
from gpudoctor.lint.questions.loop_rounds import batch_loop


def test_a_wrap_and_a_sampler_under_the_same_switch(paper):
    found = paper(
        """
        import argparse
        import torch, torch.nn as nn, torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader
        from torch.utils.data.distributed import DistributedSampler
        args = argparse.ArgumentParser().parse_args()
        args.distributed = args.world_size > 1
        model = nn.Linear(2, 2)
        sampler = None
        if args.distributed:
            dist.init_process_group("nccl")
            model = DistributedDataParallel(model)
        if args.distributed:
            sampler = DistributedSampler(range(8))
        loader = DataLoader(range(8), sampler=sampler, shuffle=sampler is None)
        reveal(model)  #: DistributedDataParallel(Linear)
        reveal(sampler)  #: DistributedSampler
        reveal(loader)  #: Loader
        for epoch in range(2):
            if args.distributed:
                sampler.set_epoch(epoch)
            for batch in loader:
                reveal(())  #: ()
        """
    )
    loader = found.event(MakeLoader).loader
    assert repr(loader.shuffle) == "False"
    assert loader.sampler.single == found.event(MakeSampler).sampler
    assert {event.target for event in found.events(SetEpoch)} == {loader.sampler.single}
    assert all(not event.condition for event in found.events(Wrap, MakeSampler, SetEpoch))


TRAINERS = {
    "a script": """
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(range(8))
        for epoch in range(3):
            for x in loader:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
        """,
    "functions": """
        import torch
        from torch.utils.data import DataLoader
        def train_epoch(model, loader, optimizer):
            for i, (x, y) in enumerate(loader):
                loss = step(model, x, y)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
        def step(model, x, y):
            return torch.nn.functional.cross_entropy(model(x), y)
        def main():
            model = torch.nn.Linear(2, 2)
            optimizer = torch.optim.AdamW(model.parameters())
            loader = DataLoader(range(8))
            for epoch in range(3):
                train_epoch(model, loader, optimizer)
        if __name__ == "__main__":
            main()
        """,
    "a Trainer class in another file": """
        import torch
        from torch.utils.data import DataLoader
        from engine.trainer import Trainer
        trainer = Trainer(torch.nn.Linear(2, 2), DataLoader(range(8)))
        trainer.fit(epochs=3)
        # file: engine/__init__.py
        # file: engine/base.py
        class Base:
            def fit(self, epochs):
                for self.epoch in range(epochs):
                    self.run_epoch()
            def run_epoch(self):
                for batch in self.loader:
                    self.optimizer.zero_grad()
                    self.run_step(batch)
                    self.optimizer.step()
        # file: engine/trainer.py
        import torch
        from .base import Base
        class Trainer(Base):
            def __init__(self, model, loader):
                self.model, self.loader = model, loader
                self.optimizer = self.configure()
            def configure(self):
                return torch.optim.SGD(self.model.parameters(), lr=0.1)
            def run_step(self, batch):
                self.loss_of(batch).backward()
            def loss_of(self, batch):
                return self.model(batch["x"]).sum()
        """,
    "a scaler, a progress bar and an iterator": """
        import torch
        from tqdm import tqdm
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.cuda.amp.GradScaler()
        loader = DataLoader(range(8))
        for epoch in range(3):
            for x, y in tqdm(loader, desc="train"):
                with torch.autocast("cuda"):
                    loss = torch.nn.functional.mse_loss(model(x), y)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        """,
    "a generator of batches": """
        import torch
        from torch.utils.data import DataLoader
        def batches(loader):
            for x, y in loader:
                yield x.cuda(), y.cuda()
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(range(8))
        for epoch in range(3):
            for x, y in batches(loader):
                loss = (model(x) - y).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        """,
}


@pytest.mark.parametrize("source", TRAINERS.values(), ids=TRAINERS)
def test_a_training_step_is_seen_in_its_loops(paper, source: str):
    found = paper(source)
    assert found.program.lost == ()
    (loader,) = {event.loader for event in found.events(Iterate)}
    assert loader == found.event(MakeLoader).loader
    for kind in (Forward, Backward, OptimizerStep, ClearGradients):
        events = found.events(kind)
        assert events, kind
        for event in events:
            batches = batch_loop(event)
            assert batches.over == loader
            assert [loop.times for loop in event.loops if loop.over is None] == [3]
    backward = found.events(Backward)[0]
    assert backward.complete
    assert backward.forwards == {found.events(Forward)[0].identity}
    optimizer = found.events(OptimizerStep)[0].optimizer
    assert optimizer.modules == {found.events(Forward)[0].module}


def test_a_gan_has_two_of_everything(paper):
    found = paper(
        """
        import itertools, torch, torch.nn as nn
        from torch.utils.data import DataLoader
        from torch.nn.parallel import DistributedDataParallel as DDP
        class Generator(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(2, 2)
            def forward(self, z):
                return self.net(z)
        class Critic(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = nn.Linear(2, 1)
            def forward(self, x):
                return self.net(x)
        g, d = DDP(Generator().cuda()), DDP(Critic().cuda())
        opt_g = torch.optim.Adam(itertools.chain(g.parameters()), lr=1e-4)
        opt_d = torch.optim.Adam(d.parameters(), lr=1e-4)
        for real in DataLoader(range(8)):
            fake = g(torch.randn(8, 2).cuda())
            opt_d.zero_grad()
            (d(fake.detach()).mean() - d(real).mean()).backward()
            opt_d.step()
            opt_g.zero_grad()
            (-d(fake).mean()).backward()
            opt_g.step()
        reveal([core for core in (g.module, d.module)])  #: [Generator, Critic]
        """
    )
    names = {event.identity: event.module.core.cls.label for event in found.events(Forward)}
    by_critic, by_both = ({names[each] for each in event.forwards} for event in found.events(Backward)[:2])
    assert by_critic == {"Critic"}
    assert by_both == {"Generator", "Critic"}
    steps = [{module.core.cls.label for module in event.optimizer.modules} for event in found.events(OptimizerStep)]
    assert steps[:2] == [{"Critic"}, {"Generator"}]


MODELS = {
    "a loss of the base that all losses have": """
        from torch.nn.modules.loss import _Loss
        class Weighted(_Loss): pass
        reveal(Weighted().cuda())  #: Weighted
        """,
    "a factory with branches": """
        import argparse, torch.nn as nn
        args = argparse.ArgumentParser().parse_args()
        class Small(nn.Module): pass
        class Big(nn.Module): pass
        def build(name):
            if name == "small":
                return Small()
            elif name == "big":
                return Big()
            raise ValueError(name)
        reveal(build("big"))  #: Big
        reveal(build(args.arch))  #: Small if name == 'small' | Big if name == 'big' and not (name == 'small')
        """,
    "a registry by decorator": """
        from registry import MODELS, register
        import nets
        reveal(MODELS["small"]())  #: Small
        # file: registry.py
        MODELS = {}
        def register(name):
            def add(cls):
                MODELS[name] = cls
                return cls
            return add
        # file: nets.py
        import torch.nn as nn
        from registry import register
        @register("small")
        class Small(nn.Module): pass
        """,
    "a registry object": """
        import torch.nn as nn
        class Registry:
            def __init__(self):
                self.kinds = {}
            def register(self, cls):
                self.kinds[cls.__name__] = cls
                return cls
            def build(self, name, **options):
                return self.kinds[name](**options)
        MODELS = Registry()
        @MODELS.register
        class Small(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.width = width
        net = MODELS.build("Small", width=3)
        reveal(net)  #: Small
        reveal(net.width)  #: 3
        """,
    "a dictionary of classes": """
        import argparse, torch.nn as nn
        args = argparse.ArgumentParser().parse_args()
        class Small(nn.Module): pass
        class Big(nn.Module): pass
        KINDS = {"small": Small, "big": Big}
        reveal(KINDS["big"]())  #: Big
        reveal(KINDS.get("small", Big)())  #: Small
        reveal(KINDS[args.arch]())  #: Small if args.arch == 'small' | Big if not (args.arch == 'small')
        reveal(KINDS.get(args.arch, Small))  #: Small | Big
        """,
    "a name in a module": """
        import nets
        reveal(getattr(nets, "Small")())  #: Small
        reveal(nets.__dict__["Small"]())  #: Small
        # file: nets.py
        import torch.nn as nn
        class Small(nn.Module): pass
        """,
    "an architecture of torchvision": """
        import argparse, torchvision
        import torchvision.models as models
        args = argparse.ArgumentParser().parse_args()
        reveal(models.resnet50(weights=None))  #: resnet50
        reveal(torchvision.models.resnet18())  #: resnet18
        reveal(models.__dict__["vgg16"]())  #: vgg16
        reveal(models.__dict__[args.arch]())  #: *
        reveal(getattr(models, args.arch)())  #: *
        """,
    "layers": """
        import torch.nn as nn
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        reveal(net)  #: Sequential
        """,
    "torch.compile": """
        import torch, torch.nn as nn
        class Net(nn.Module): pass
        model = torch.compile(Net())
        reveal(model)  #: torch.compile(Net)
        model = nn.parallel.DistributedDataParallel(torch.compile(Net().cuda()))
        reveal(model)  #: DistributedDataParallel(torch.compile(Net))
        reveal(model.module)  #: torch.compile(Net)
        reveal(model.module._orig_mod)  #: Net
        from functorch.compile import memory_efficient_fusion
        reveal(memory_efficient_fusion(Net()))  #: torch.compile(Net)
        """,
    "names and settings of timm": """
        import argparse
        from timm.data import resolve_data_config
        from timm.models import safe_model_name
        args = argparse.Namespace(local_rank=0)
        config = resolve_data_config(vars(args), model=None, verbose=args.local_rank == 0)
        reveal(config["input_size"][-1])  #: 224
        reveal(safe_model_name("resnet50"))  #: 'resnet50'
        """,
    "unwrapping helpers": """
        import torch.nn as nn
        class Net(nn.Module): pass
        def bare(model):
            return model.module if hasattr(model, "module") else model
        def unwrap(model):
            while hasattr(model, "module"):
                model = model.module
            return model
        def by_type(model):
            if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
                return model.module
            return model
        net = Net()
        wrapped = nn.parallel.DistributedDataParallel(net)
        reveal(bare(wrapped))  #: Net
        reveal(bare(net))  #: Net
        reveal(by_type(wrapped))  #: Net
        reveal(by_type(net))  #: Net
        reveal(getattr(wrapped, "module", wrapped))  #: Net
        reveal(getattr(net, "module", net))  #: Net
        """,
    "a model that moves is the same model": """
        import torch, torch.nn as nn
        class Net(nn.Module): pass
        net = Net().to("cuda").train()
        reveal(net)  #: Net
        reveal(net.cuda(0).eval())  #: Net
        reveal(nn.SyncBatchNorm.convert_sync_batchnorm(net))  #: Net
        """,
}


@pytest.mark.parametrize("source", MODELS.values(), ids=MODELS)
def test_models_are_known_however_they_are_made(paper, source: str):
    assert paper(source).program.lost == ()


def test_wraps_of_every_kind(paper):
    found = paper(
        """
        import torch, torch.nn as nn
        from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, fully_shard
        nn.DataParallel(nn.Linear(1, 1))
        torch.nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
        FSDP(nn.Linear(1, 1))
        fully_shard(nn.Linear(1, 1))
        """
    )
    assert [event.kind for event in found.events(Wrap)] == [
        WrapperKind.DATA_PARALLEL,
        WrapperKind.DDP,
        WrapperKind.FSDP,
        WrapperKind.FSDP,
    ]


def test_a_checkpoint_in_a_helper_file(paper):
    found = paper(
        """
        import torch
        from tools.checkpoint import save, load
        model = torch.nn.Linear(2, 2)
        save({"model": model.state_dict()}, "out", 3)
        load(model, "out/3.pt")
        # file: tools/checkpoint.py
        import os
        import torch
        def save(state, folder, epoch):
            torch.save(state, os.path.join(folder, f"{epoch}.pt"))
        def load(model, path):
            model.load_state_dict(torch.load(path, map_location="cpu")["model"])
        """
    )
    save = found.event(Save)
    assert save.location.path == "tools/checkpoint.py"
    assert [(place.path, place.line) for place in save.context.calls] == [("train.py", 5)]
    assert [entry for entry, _ in save.states] == ["model"]
    assert found.event(Load).location.path == "tools/checkpoint.py"


SYNC_CONTROLS = {
    "no_sync": "with model.no_sync(): pass",
    "no_sync of one of two": "with (model.no_sync() if args.quiet else contextlib.nullcontext()): pass",
    "require_backward_grad_sync": "model.require_backward_grad_sync = False",
    "disable_allreduce": "apex.parallel.DistributedDataParallel(torch.nn.Linear(1, 1)).disable_allreduce()",
    "accumulate": "with accelerate.Accelerator().accumulate(model): pass",
    "no_sync of unknown": "with company.make(model).no_sync(): pass",
}


@pytest.mark.parametrize("control", SYNC_CONTROLS.values(), ids=SYNC_CONTROLS)
def test_who_says_when_gradients_are_averaged(paper, control: str):
    found = paper(
        f"""
        import argparse, contextlib, accelerate, apex, company, torch
        args = argparse.ArgumentParser().parse_args()
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
        {control}
        """
    )
    assert found.event(GradientSync).call in control


def test_no_sync_around_the_end_of_the_data_is_no_such_thing(paper):
    found = paper(
        """
        import torch
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
        with model.join():
            model.static_graph = True
        """
    )
    assert found.events(GradientSync) == []


def test_leaving_a_loop_over_batches_by_its_counter(paper):
    found = paper(
        """
        from torch.utils.data import DataLoader
        for step, batch in enumerate(DataLoader([1])):
            if step > 3:
                break
        for step in range(9):
            if step > 3:
                break
        """
    )
    assert {event.location.line for event in found.events(LeaveLoop)} == {5}


def test_every_count_is_a_multiple_of_one(paper):
    paper(
        """
        steps, ACCUMULATE = 0, 1
        for epoch in range(9):
            steps += 1
            reveal(steps % ACCUMULATE)  #: 0
            reveal((epoch + 1) % ACCUMULATE == 0)  #: True
            reveal(epoch % 2)  #: unknown
        """
    )


DEBUG_FLAGS = {
    "torch.autograd.set_detect_anomaly(True)": [True],
    "torch.autograd.set_detect_anomaly(mode=False)": [False],
    "torch.autograd.set_detect_anomaly(args.debug)": [None],
    "with torch.autograd.detect_anomaly(check_nan=False): pass": [True, False],
    "torch.distributed.set_debug_level(torch.distributed.DebugLevel.DETAIL)": [True],
    "torch.distributed.set_debug_level(torch.distributed.DebugLevel.INFO)": [False],
    "lightning.Trainer(detect_anomaly=True)": [True],
}


@pytest.mark.parametrize("statement", DEBUG_FLAGS)
def test_debugging_aids_are_switched_on_and_off(paper, statement: str):
    found = paper(
        f"""
        import argparse, lightning, torch
        args = argparse.ArgumentParser().parse_args()
        {statement}
        """
    )
    assert [event.on for event in found.events(DebugFlag)] == DEBUG_FLAGS[statement]


def test_the_time_between_two_looks_at_a_clock(paper):
    found = paper(
        """
        import time
        from timeit import default_timer as timer
        class Watch:
            def __init__(self):
                self.began = timer()
            def stop(self):
                return timer() - self.began
        start = time.time()
        watch = Watch()
        limit = start + 60
        time.time() - limit
        1000 * (time.time() - start)
        watch.stop()
        """
    )
    clocks = {event.identity: event.location.line for event in found.events(ClockRead)}
    assert [(clocks[each.since], clocks[each.until]) for each in found.events(Elapsed)] == [(9, 13), (6, 8)]


def test_a_test_of_a_tensor_waits_for_the_gpu(paper):
    found = paper(
        """
        import torch
        model = torch.nn.Linear(1, 1).cuda()
        loss = model(torch.ones(1, device="cuda")).sum()
        if loss > 1 and not torch.isnan(loss):
            pass
        if torch.ones(1).sum() > 2:
            pass
        assert loss.shape
        """
    )
    assert {(event.location.line, event.call) for event in found.events(HostSync)} == {(5, "bool")}


def test_parameters_that_are_sorted_into_groups_are_all_known(paper):
    found = paper(
        """
        import torch
        class Own(torch.optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, dict(lr=lr))
        model = torch.nn.Linear(2, 2)
        decay, rest = [], []
        for name, param in model.named_parameters():
            if param.ndim == 1:
                rest.append(param)
            else:
                decay.append(param)
        torch.optim.SGD([{"params": decay}, {"params": rest, "weight_decay": 0.0}], lr=0.1).step()
        Own([{"params": decay}, {"params": rest}], lr=0.1).step()
        """
    )
    optimizers = [event.optimizer for event in found.events(OptimizerStep)]
    assert [(optimizer.complete, len(optimizer.modules)) for optimizer in optimizers] == [(True, 1), (True, 1)]


@pytest.mark.parametrize(
    "given", ["**batch", "**{k: v.cuda() for k, v in batch.items()}", "*batch", "*[b for b in batch]"]
)
def test_a_model_that_is_given_a_whole_batch(paper, given: str):
    found = paper(
        f"""
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(2, 2)
        loader = DataLoader([1])
        for batch in loader:
            model({given})
        """
    )
    loader = found.event(MakeLoader).loader
    assert all({each.batch_of for each in call.inputs} == {loader} for call in found.events(Forward))


def test_a_part_of_what_a_model_returns_is_one_tensor(paper):
    found = paper(
        """
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(2, 2)
        total = 0.0
        for batch in DataLoader([1]):
            outputs = model(batch)
            outputs.loss.backward()
            total += outputs.loss
        """
    )
    assert {event.location.line for event in found.events(Accumulated)} == {9}


def test_what_one_of_two_models_returns_is_on_the_gpu_either_way(paper):
    found = paper(
        """
        import argparse, torch
        from torch.utils.data import DataLoader, TensorDataset
        args = argparse.ArgumentParser().parse_args()
        model = torch.nn.Linear(2, 2) if args.small else torch.nn.Linear(3, 3)
        model.cuda()
        for x, y in DataLoader(TensorDataset(torch.zeros(1), torch.zeros(1))):
            out = model(x.cuda())
            torch.nn.functional.mse_loss(out, y)
            either = out if args.small else y
            torch.nn.functional.mse_loss(either, y)
        """
    )
    assert {event.location.line for event in found.events(Mixed)} == {9, 11}
    assert {str(event.condition) for event in found.events(Mixed) if event.location.line == 11} == {"args.small"}


def test_a_sum_by_name_grows_as_any_other(paper):
    found = paper(
        """
        import torch
        from torch.utils.data import DataLoader
        model = torch.nn.Linear(2, 2)
        sums = {}
        for batch in DataLoader([1]):
            loss = model(batch).sum()
            loss.backward()
            for name, value in {"loss": loss}.items():
                sums[name] = sums.get(name, 0) + value
                sums["last"] = sums.get(name, 0) + 1
        """
    )
    assert {event.location.line for event in found.events(Accumulated)} == {10}


def test_loaders_one_after_another_are_gone_through(paper):
    found = paper(
        """
        import itertools
        from torch.utils.data import DataLoader
        loaders = [DataLoader([1]), DataLoader([2])]
        for batch in itertools.chain.from_iterable(loader for loader in loaders):
            pass
        for batch in itertools.chain.from_iterable(loaders):
            pass
        """
    )
    assert {event.location.line for event in found.events(Iterate)} == {5, 7}
