"""Tokenizers that are trained, and kept as one file."""

from gpudoctor.manifest.effects import saves

class Tokenizer:
    @staticmethod
    @saves(path="path", whole=True)
    def save(path, pretty=True): ...
