"""Gradients without a loss of their own."""

from gpudoctor.manifest.effects import trains

@trains()
def backward(tensors, **more): ...
@trains()
def grad(outputs, inputs, **more): ...
