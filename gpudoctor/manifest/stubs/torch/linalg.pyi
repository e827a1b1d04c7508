"""Norms."""

from gpudoctor.manifest.effects import computes

@computes(measures=True)
def vector_norm(x, **more): ...
@computes(measures=True)
def matrix_norm(A, **more): ...
