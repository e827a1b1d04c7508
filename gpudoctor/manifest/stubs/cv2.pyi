"""Files that are read and written."""

from gpudoctor.manifest.effects import reads_file, saves

@reads_file()
def imread(filename, **more): ...
@saves(path="filename", whole=True)
def imwrite(filename, img, **more): ...
