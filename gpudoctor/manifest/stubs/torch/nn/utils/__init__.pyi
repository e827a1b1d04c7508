"""Norms of gradients, and weights that are written as one vector."""

from gpudoctor.manifest.effects import computes, followed

@computes(measures=True)
def get_total_norm(tensors, **more): ...
@followed()
def vector_to_parameters(vec, parameters):
    for parameter in parameters:
        parameter.data = vec
