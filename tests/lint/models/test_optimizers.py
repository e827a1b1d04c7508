"""Optimizers: whose parameters they hold, however these were grouped, and what an own class does with them."""

from __future__ import annotations

from gpudoctor.lint.values.event import Lost, MakeOptimizer


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
    assert not list(found.events(Lost))
    (made,) = found.events(MakeOptimizer)
    assert [each.label for each in made.optimizer.modules] == ["net"]
