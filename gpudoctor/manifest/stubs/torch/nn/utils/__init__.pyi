"""Norms of gradients."""

from gpudoctor.manifest.effects import computes

@computes(measures=True)
def get_total_norm(tensors, **more): ...
