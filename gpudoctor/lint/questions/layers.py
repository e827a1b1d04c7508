"""What is known of a layer by the library that made it."""

from __future__ import annotations

from gpudoctor.lint.domain.module import Module
from gpudoctor.manifest.compiled import layers


def normalises_batch(part: Module) -> bool:
    """It normalises over the batch, or is a ready model with layers that do."""
    ready = part.made_by.startswith("torchvision.models.") and part.buffers is True
    return ready or part.made_by.startswith("torch.nn.BatchNorm")


def minds_mode(part: Module) -> bool:
    """It may compute something else in evaluation mode."""
    # A model of another library is taken to have dropout or batch normalisation, as nearly all do.
    others = part.cls is None and not part.made_by.startswith("torch.nn.")
    return others or part.made_by.rpartition(".")[2] in layers("modes")


def recurs(part: Module) -> bool:
    """It may be given again what it has returned: a text is read on where the last batch ended."""
    return part.made_by.rpartition(".")[2] in layers("recurs")
