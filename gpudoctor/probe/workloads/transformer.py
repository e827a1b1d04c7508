"""Transformer blocks, sized to the free memory of the smallest GPU: the workload that is worth several GPUs."""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.workloads.workload import Workload
from gpudoctor.record import dataclass

TOKENS = 512
"""Size of the vocabulary."""
SHARE = 0.4
"""Of the free memory that may be used: fragments, the buckets of DDP and the libraries take their part."""
BYTES_A_PARAMETER = 20
"""float32: parameter, gradient, two moments of Adam, and the bucket of DDP."""


@dataclass(frozen=True)
class TransformerSize:
    """Width, number of blocks, length of a sequence, and sequences a batch."""

    width: int
    blocks: int
    length: int
    samples: int

    @property
    def parameters(self) -> int:
        """How many numbers the blocks hold, embeddings left out: twelve squares of the width each."""
        return 12 * self.blocks * self.width**2

    @property
    def bytes(self) -> int:
        """What a training step takes, roughly: the state of the parameters, and 40 activations a token and width."""
        activations = 40 * 4 * self.samples * self.length * self.width * self.blocks
        return self.parameters * BYTES_A_PARAMETER + activations


SIZES = (
    TransformerSize(width=64, blocks=1, length=16, samples=4),
    TransformerSize(width=256, blocks=2, length=128, samples=8),
    TransformerSize(width=512, blocks=4, length=128, samples=8),
    TransformerSize(width=768, blocks=6, length=256, samples=8),
    TransformerSize(width=1024, blocks=8, length=512, samples=8),
    TransformerSize(width=1536, blocks=12, length=512, samples=8),
    TransformerSize(width=2048, blocks=16, length=512, samples=8),
)
"""A step of the largest one takes a fraction of a second on the GPUs that have the memory for it."""


def size_for(free: int | None) -> TransformerSize:
    """The largest size whose step fits into its share of `free` bytes; the smallest one without a GPU (None)."""
    if free is None:
        return SIZES[0]
    fitting = [size for size in SIZES if size.bytes <= SHARE * free]
    return fitting[-1] if fitting else SIZES[0]


def workload(size: TransformerSize) -> Workload:
    """Inputs and labels (samples, length): each token predicts the next of a sequence that counts."""
    return Workload(
        "transformer",
        size.samples,
        lambda: _model(size),
        lambda samples, seed: _batch(size, samples, seed),
        _loss,
        rate=3e-4,
        autocast=True,
        layers=tuple(str(index + 1) for index in range(size.blocks)),
    )


def _model(size: TransformerSize) -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    heads = max(1, size.width // 64)
    # Without dropout, so that the loss of two runs can be compared.
    blocks = [
        nn.TransformerEncoderLayer(size.width, heads, 4 * size.width, 0.0, "gelu", batch_first=True, norm_first=True)
        for _ in range(size.blocks)
    ]
    return nn.Sequential(nn.Embedding(TOKENS, size.width), *blocks, nn.Linear(size.width, TOKENS))


def _batch(size: TransformerSize, samples: int, seed: int) -> tuple[Any, Any]:
    import torch

    first = torch.randint(0, TOKENS, (samples, 1), generator=torch.Generator().manual_seed(seed))
    sequence = (first + torch.arange(size.length + 1)) % TOKENS
    return sequence[:, :-1].contiguous(), sequence[:, 1:].contiguous()


def _loss(model: Any, inputs: Any, labels: Any) -> Any:
    from torch.nn.functional import cross_entropy

    return cross_entropy(model(inputs).flatten(0, 1).float(), labels.flatten())
