"""Figures that are written."""

from gpudoctor.manifest.effects import saves

@saves(path="fname", whole=True)
def savefig(fname, **more): ...
@saves(path="fname", whole=True)
def imsave(fname, arr, **more): ...
