"""Layers of torch_geometric and DGL: what they hold, so that the model around them is known."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import ModuleState
from gpudoctor.lint.domain.heuristics import CONVOLUTION
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.value import Values
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, flatten, singleton
from gpudoctor.lint.library.devices import made_on
from gpudoctor.lint.library.torch_nn import take_in

AROUND = ("HeteroConv", "HeteroGraphConv")
"""Convolutions around others, one for each kind of edge, which have nothing of their own."""
AROUND_NETWORKS = (
    *("GINConv", "GINEConv", "EdgeConv", "DynamicEdgeConv", "NNConv", "ECConv", "PointConv", "PointNetConv", "PPFConv"),
    *("PointTransformerConv", "PointGNNConv", "DirGNNConv", "GPSConv"),
)
"""Convolutions that are given networks."""


@MODELS.callable("torch_geometric.nn.*", "dgl.nn.*")
def _layer(call: Call) -> Values:
    last = call.name.rpartition(".")[2]
    # What functions of these libraries return is not known.
    if not last[:1].isupper():
        return NOT_ANSWERED
    # Models and layers of other kinds have weights, or none.
    weights = True if CONVOLUTION.fits(last) and last not in AROUND else None
    module = Module(
        call.allocation_site(), call.place, call.label, made_by=call.name, parameters=weights,
        exact=not call.open_ended,
    )  # fmt: skip
    call.do.set_state(module, ModuleState.device, made_on(call))
    # `GINConv(mlp)` holds what the network holds that it is given; most are given numbers, known or not.
    unseen = weights is None or last in AROUND_NETWORKS
    for value in flatten(call.do, call.all_values()):
        if unseen or isinstance(value, Module):
            take_in(call.do, module, value)
    return singleton(module)
