"""Optimizers: whose parameters they hold, however these were grouped, and what an own class does with them."""

import pytest

from gpudoctor.lint.domain.optim import Optimizer, Scheduler
from gpudoctor.lint.events.knowledge import Imprecision
from gpudoctor.lint.events.training_step import MakeOptimizer, OptimizerStep, SchedulerStep


def test_groups_that_a_loop_fills_hold_the_model(paper):
    found = paper("""
        import torch, torch.nn as nn
        net = nn.Linear(2, 2)
        groups = {}
        for name, p in net.named_parameters():
            key = "layer_%d" % len(name)
            if key not in groups:
                groups[key] = {"scale": 0.5 ** len(name), "params": []}
            groups[key]["params"].append(p)
        torch.optim.SGD(list(groups.values()), lr=1)
        """)
    (made,) = found.events(MakeOptimizer)
    assert [each.label for each in made.optimizer.modules] == ["net"]
    assert made.optimizer.complete


def test_an_own_optimizer_goes_over_the_parameters_of_its_model(paper):
    found = paper("""
        import torch, torch.nn as nn
        class Own(torch.optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, dict(lr=lr))
            @torch.no_grad()
            def step(self):
                for group in self.param_groups:
                    for p in group["params"]:
                        p.add_(p.grad, alpha=-group["lr"])
        net = nn.Linear(2, 2)
        optimizer = Own(net.parameters(), 1)
        for i in range(9):
            for group in optimizer.param_groups:
                group["lr"] = 1 / (i + 1)
            net(torch.zeros(2)).sum().backward()
            optimizer.step()
        """)
    assert not list(found.events(Imprecision))
    (made,) = found.events(MakeOptimizer)
    assert [each.label for each in made.optimizer.modules] == ["net"]


def test_one_of_twenty_optimizers_is_an_optimizer_still(paper):
    names = ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adadelta", "Adagrad", "Adamax", "ASGD", "RMSprop", "Rprop"]
    choices = "".join(
        f'        {"el" if index else ""}if args.opt == "{index}":\n'
        f"            optimizer = torch.optim.{name}(net.parameters())\n"
        for index, name in enumerate(names * 2)
    )
    found = paper(f"""
        import argparse, torch, torch.nn as nn
        parser = argparse.ArgumentParser()
        parser.add_argument("--opt")
        args = parser.parse_args()
        net = nn.Linear(2, 2)
{choices}        else:
            raise ValueError(args.opt)
        optimizer.step()
        """)
    assert [type(event.optimizer) for event in found.events(OptimizerStep)] == [Optimizer] * 22


def test_wrappers_of_optimizers_step_what_they_wrap(paper):
    found = paper("""
        import timm.optim, torch, torch.nn as nn
        from apex.parallel.LARC import LARC
        from timm.optim.lookahead import Lookahead
        net = nn.Linear(2, 2)
        scaled = LARC(torch.optim.SGD(net.parameters(), lr=1), trust_coefficient=0.001)
        scaled.step()
        ahead = Lookahead(scaled)
        ahead.step()
        """)
    (made,) = found.events(MakeOptimizer)
    assert [event.optimizer for event in found.events(OptimizerStep)] == [made.optimizer] * 2


def test_a_class_whose_import_may_fail_is_called_where_it_did_not(paper):
    found = paper("""
        import argparse, torch, torch.nn as nn
        try:
            from apex.optimizers import FusedAdam
        except ImportError:
            FusedAdam = None
        net = nn.Linear(2, 2)
        optimizer = FusedAdam(net.parameters(), lr=1)
        optimizer.step()
        """)
    (made,) = found.events(MakeOptimizer)
    assert [event.optimizer for event in found.events(OptimizerStep)] == [made.optimizer]
    assert not found.events(Imprecision)


def test_parameters_that_were_taken_from_layers_are_those_of_parts_of_the_model(paper):
    found = paper("""
        import torch, torch.nn as nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
            def forward(self, x):
                return self.b(self.a(x))
        net = Net()
        biases, weights = [], []
        for name, child in net.named_children():
            for layer in child.modules():
                weights += list(layer.parameters())
                biases.append(layer.bias)
        torch.optim.SGD([{"params": weights}, {"params": biases, "weight_decay": 0.0}], lr=1)
        """)
    (made,) = found.events(MakeOptimizer)
    assert made.optimizer.complete
    (part,) = made.optimizer.modules
    assert part.made_by == "a part of a module"


def test_what_a_part_was_asked_beside_other_unknown_things_may_be_more(paper):
    found = paper("""
        import torch, torch.nn as nn
        from somewhere import more
        net = nn.Linear(2, 2)
        torch.optim.SGD([*(layer.weight for layer in net.modules()), more().weight], lr=1)
        """)
    (made,) = found.events(MakeOptimizer)
    assert not made.optimizer.complete


def test_one_of_many_schedulers_is_a_scheduler_still(paper):
    names = [
        "StepLR",
        "MultiStepLR",
        "ExponentialLR",
        "CosineAnnealingLR",
        "CyclicLR",
        "OneCycleLR",
        "LinearLR",
        "PolynomialLR",
    ]
    choices = "".join(
        f'        {"el" if index else ""}if args.sched == "{name}":\n'
        f"            scheduler = torch.optim.lr_scheduler.{name}(optimizer, 1)\n"
        for index, name in enumerate(names)
    )
    found = paper(f"""
        import argparse, torch, torch.nn as nn
        parser = argparse.ArgumentParser()
        parser.add_argument("--sched")
        args = parser.parse_args()
        net = nn.Linear(2, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=1)
{choices}        else:
            raise ValueError(args.sched)
        for _ in range(9):
            net(torch.zeros(2)).sum().backward()
            optimizer.step()
            scheduler.print_lr(False, 0, 1.0)
        """)
    assert not list(found.events(Imprecision))


def test_mixed_precision_of_apex_gives_back_what_it_is_given(paper) -> None:
    paper(
        """
        import torch
        from apex import amp
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        reveal(amp.initialize(model))  #: Linear
        reveal(amp.initialize(model, optimizer, opt_level="O1"))  #: (Linear, Optimizer)
        reveal(amp.initialize(model, optimizers=optimizer))  #: (Linear, Optimizer)
        """
    )


@pytest.mark.parametrize("module", ["transformers", "transformers.optimization", "diffusers.optimization"])
@pytest.mark.parametrize("made", ["get_wsd_schedule(optimizer, 1, 2)", "get_scheduler('cosine', optimizer=optimizer)"])
def test_a_function_that_makes_a_scheduler(paper, module: str, made: str):
    found = paper(f"""
        import torch
        from {module} import {made.partition("(")[0]}
        optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=1)
        {made}.step()
        """)
    (step,) = found.events(SchedulerStep)
    assert isinstance(step.scheduler, Scheduler)
    assert isinstance(step.scheduler.optimizer, Optimizer)
