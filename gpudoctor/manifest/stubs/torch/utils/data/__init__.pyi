"""Loaders, and which samples they take."""

from gpudoctor.manifest.effects import trains

@trains()
class DataLoader: ...
