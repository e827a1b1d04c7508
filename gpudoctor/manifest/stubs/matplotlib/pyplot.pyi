"""Figures that are written."""

from matplotlib.figure import Figure

from gpudoctor.manifest.effects import saves

@saves(path="fname", whole=True)
def savefig(fname, **more): ...
@saves(path="fname", whole=True)
def imsave(fname, arr, **more): ...
def figure(**more) -> Figure: ...
def subplots(**more) -> tuple[Figure, object]: ...

gcf = figure
