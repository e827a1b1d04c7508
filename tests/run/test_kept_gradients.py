"""What is seen of gradients from one step to the next."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.installs import require_torch

require_torch()
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("places", "gradient", "lost"),
    [((1, 1, 1), 1.0, 2), ((1, 1, 2), 1.0, 0), ((1, 1, 1), float("inf"), 0), ((1,), 1.0, 0)],
    ids=["of the same loss", "another loss", "thrown away by a scaler", "only one"],
)
def test_gradients_that_are_cleared_between_backwards(places: tuple[int, ...], gradient: float, lost: int) -> None:
    import torch

    from gpudoctor.run.instruments.kept_gradients import KeptGradients

    told: list[dict[str, Any]] = []
    following = iter(places)
    recorder = SimpleNamespace(place=lambda: next(following))
    state: Any = SimpleNamespace(steps=1, recorder=recorder, write=lambda kind, **facts: told.append(facts))
    seen = KeptGradients(state)
    weight = torch.nn.Parameter(torch.ones(1))
    seen.follow([weight])
    for _ in places:
        weight.grad = None
        seen.before_backward()
        weight.grad = torch.full((1,), gradient)
        seen.after_backward()
    seen.tell()
    assert told == [{"kept": False, "backwards": len(places), "lost": lost, "place": 1}]
