"""Which layers of `torch.nn` have parameters, which have buffers, and which only hold others."""

from __future__ import annotations

from gpudoctor.lint.library.heuristics import NORMALISED

# DDP refuses a module none of whose parameters needs a gradient, so which layers have any matters.
WITH_PARAMETERS = frozenset(
    """
    Linear Bilinear LazyLinear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Embedding
    EmbeddingBag LSTM GRU RNN LSTMCell GRUCell RNNCell BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm
    LayerNorm GroupNorm InstanceNorm2d MultiheadAttention Transformer TransformerEncoder TransformerDecoder
    PReLU RMSNorm TransformerEncoderLayer TransformerDecoderLayer LazyConv2d AdaptiveLogSoftmaxWithLoss
    """.split()
)
# DDP broadcasts buffers at each forward: a forward on rank 0 alone then waits.
WITH_BUFFERS = frozenset(["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"])
CONTAINERS = frozenset(["Sequential", "ModuleList", "ModuleDict"])


def has_running_statistics(made_by: str) -> bool:
    """A ready model of torchvision that surely has layers of batch normalisation, unless it is given another kind."""
    last = made_by.rpartition(".")[2]
    # Those of `detection` are made with frozen ones.
    known = made_by.startswith("torchvision.models.") and ".detection." not in made_by
    return known and NORMALISED.fits(last)


INNER_MODULES = ("modules", "children", "named_modules", "named_children")
"""The methods of a module that hand out its parts."""
