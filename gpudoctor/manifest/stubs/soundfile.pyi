"""Files that are read and written."""

from gpudoctor.manifest.effects import reads_file, saves

@reads_file()
def read(file, **more): ...
@saves(path="file", whole=True)
def write(file, data, **more): ...
