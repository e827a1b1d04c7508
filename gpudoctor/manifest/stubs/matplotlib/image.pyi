"""Pictures that are read and written."""

from gpudoctor.manifest.effects import reads_file, saves

@reads_file()
def imread(fname, **more): ...
@saves(path="fname", whole=True)
def imsave(fname, arr, **more): ...
