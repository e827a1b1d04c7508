"""Tensors that are spread over a mesh."""
