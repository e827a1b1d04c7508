"""The CIFAR-10 network of the articles: two convolutions and two linear layers, 2.1 million parameters."""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.workloads.reference import loss_of
from gpudoctor.probe.workloads.workload import Workload

CLASSES = 10


def workload(samples: int) -> Workload:
    """Inputs (samples, 3, 32, 32), labels (samples,) that the brightest of ten stripes gives away."""
    return Workload("cifar10", samples, model, _batch, loss_of)


def model() -> Any:
    """The network, with the same parameters each time."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, 2),
        nn.Flatten(),
        nn.Linear(64 * 8 * 8, 512),
        nn.ReLU(),
        nn.Linear(512, CLASSES),
    )


def _batch(samples: int, seed: int) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(samples, 3, 32, 32, generator=generator)
    labels = torch.randint(0, CLASSES, (samples,), generator=generator)
    for image, label in zip(images, labels, strict=True):
        image[:, int(label) * 3 : int(label) * 3 + 3] += 2.0
    return images, labels
