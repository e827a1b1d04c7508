"""Files that are read and written."""

from gpudoctor.manifest.effects import reads_file, saves

@reads_file()
def load(uri, **more): ...
@saves(path="uri", whole=True)
def save(uri, src, **more): ...
