"""What programs take from timm beside its models: none of it hides the training."""

import pytest

from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, OptimizerStep

SET_UP = """
    import timm, timm.optim, timm.scheduler, timm.utils, torch, torch.nn as nn
    from timm.optim import optim_factory
    net = nn.Linear(2, 2)
    {lines}
    """
OPTIMIZERS = {
    "by arguments": "timm.optim.create_optimizer(args, net)",
    "by name": "timm.optim.create_optimizer_v2(net, opt='adamw')",
    "a class": "timm.optim.Lion(net.parameters(), lr=1)",
    "torch's, with groups": "torch.optim.AdamW(optim_factory.add_weight_decay(net, 0.1), lr=1)",
}


@pytest.mark.parametrize("line", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_an_optimizer_holds_the_model(paper, line: str):
    (made,) = paper(SET_UP.format(lines=line)).events(MakeOptimizer)
    assert made.optimizer.complete
    assert [each.label for each in made.optimizer.modules] == ["net"]


def test_a_scheduler_leaves_the_optimizer_alone(paper):
    found = paper(
        SET_UP.format(
            lines="""
    optimizer = torch.optim.SGD(net.parameters(), lr=1)
    scheduler, epochs = timm.scheduler.create_scheduler(args, optimizer)
    scheduler.step(1)
    timm.scheduler.CosineLRScheduler(optimizer, t_initial=3).step(1)
    """
        )
    )
    assert not [event for event in found.events(Escape) if event.values]
    assert not list(found.events(OptimizerStep))


@pytest.mark.parametrize(
    ("given", "steps"), [("", [False]), (", need_update=False", []), (", need_update=x()", [True])]
)
def test_a_scaler_goes_backward_and_steps(paper, given: str, steps: list[bool]):
    found = paper(
        SET_UP.format(
            lines=f"""
    optimizer = torch.optim.SGD(net.parameters(), lr=1)
    scaler = timm.utils.NativeScaler()
    scaler(net(torch.zeros(2)).sum(), optimizer, parameters=net.parameters(){given})
    """
        )
    )
    assert len(list(found.events(Backward))) == 1
    made = list(found.events(OptimizerStep))
    assert [bool(event.condition) for event in made] == steps
    assert all(event.through == "scaler" for event in made)


def test_an_average_of_the_weights_is_no_part_of_the_model(paper):
    found = paper(
        SET_UP.format(
            lines="""
    average = timm.utils.ModelEmaV2(net)
    company.keep(average)
    """
        )
    )
    (held,) = [value for event in found.events(Escape) for value in event.values]
    assert found.program.within(held) == {held}
