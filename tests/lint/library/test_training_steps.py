"""What training steps are made of: scalers, cuts, losses that are means, parts that are computed again."""

from gpudoctor.lint.domain.value import FALSE
from gpudoctor.lint.events.training_step import (
    Backward,
    ClipGradients,
    OptimizerStep,
    Recompute,
    ScaleGradients,
    ScalerCall,
)

PROGRAM = """
    import torch
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    loss = model(torch.zeros(1, 2)).sum()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


def test_each_call_of_a_scaler_is_logged_with_its_optimizer(paper):
    found = paper(PROGRAM)
    calls = [*found.events(ScalerCall)]
    optimizer = found.event(OptimizerStep).optimizer
    assert [event.call for event in calls] == ["scale", "unscale_", "step", "update"]
    assert [event.optimizer for event in calls] == [None, optimizer, optimizer, None]
    assert len({event.scaler for event in calls}) == 1
    assert calls[0].scaler.enabled.single == FALSE


def test_a_backward_knows_who_scaled_its_loss(paper):
    found = paper(PROGRAM)
    assert found.event(Backward).scaler == next(iter(found.events(ScalerCall))).scaler


def test_what_is_cut_names_its_modules(paper):
    clip = paper(PROGRAM).event(ClipGradients)
    assert clip.call == "clip_grad_norm_"
    assert [module.label for module in clip.modules] == ["model"]


def test_a_mean_loss_stays_one_until_it_is_multiplied(paper):
    found = paper(
        """
        import torch
        import torch.nn.functional as F
        model = torch.nn.Linear(2, 2)
        x, y = torch.zeros(4, 2), torch.zeros(4, 2)
        F.mse_loss(model(x), y).backward()
        (F.mse_loss(model(x), y) + torch.nn.L1Loss()(model(x), y)).backward()
        (F.mse_loss(model(x), y) / 4).backward()
        F.mse_loss(model(x), y, reduction="sum").backward()
        loss = F.mse_loss(model(x), y)
        loss.div_(4)
        loss.backward()
        """
    )
    assert [event.loss.mean for event in found.events(Backward)] == [True, True, False, False, False]


def test_a_loss_knows_the_world_size_that_it_was_divided_by(paper):
    found = paper(
        """
        import torch
        import torch.distributed as dist
        import torch.nn.functional as F
        dist.init_process_group("gloo")
        model = torch.nn.Linear(2, 2)
        x, y = torch.zeros(4, 2), torch.zeros(4, 2)
        (F.mse_loss(model(x), y) / dist.get_world_size()).backward()
        (2 * (F.mse_loss(model(x), y) / dist.get_world_size())).backward()
        (F.mse_loss(model(x), y) / dist.get_world_size() * dist.get_world_size()).backward()
        for parameter in model.parameters():
            parameter.grad /= 2
        """
    )
    assert [event.loss.divided is not None for event in found.events(Backward)] == [True, True, False]
    assert next(iter(found.events(ScaleGradients)), None) is not None


def test_what_a_forward_recomputes_is_seen_where_its_wrapper_searches(paper):
    found = paper(
        """
        import torch, torch.nn as nn, torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.checkpoint import checkpoint
        class Inner(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
            def forward(self, x):
                return checkpoint(self.layer, x)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()
            def forward(self, x):
                return self.inner(x)
        dist.init_process_group("gloo")
        DistributedDataParallel(Net())(torch.zeros(1, 2))
        DistributedDataParallel(Net(), find_unused_parameters=True)(torch.zeros(1, 2))
        """
    )
    event = found.event(Recompute)
    assert event.reentrant is True
    assert event.location.line == 10


def test_a_loss_knows_whose_weights_it_was_computed_with(paper):
    found = paper(
        """
        import torch
        import torch.nn.functional as F
        head = torch.nn.Linear(2, 2)
        x = torch.zeros(4, 2)
        F.mse_loss(F.linear(x, head.weight), x).backward()
        F.mse_loss(F.linear(x, head.weight.detach()) + head(x), x).backward()
        torch.optim.SGD([head.weight], lr=0.1).step()
        """
    )
    assert [[module.label for module in event.loss.used] for event in found.events(Backward)] == [["head"], []]
    optimizer = found.event(OptimizerStep).optimizer
    assert ([module.label for module in optimizer.modules], optimizer.complete) == (["head"], False)
