"""Figures that are written."""

from gpudoctor.manifest.effects import saves

class Figure:
    @saves(path="fname", whole=True)
    def savefig(self, fname, **more): ...
