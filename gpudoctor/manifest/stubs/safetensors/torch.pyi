"""Tensors that are written."""

from gpudoctor.manifest.effects import saves

@saves(path="filename", content="tensors")
def save_file(tensors, filename, metadata=None): ...
@saves(path="filename", content="model")
def save_model(model, filename, **more): ...
