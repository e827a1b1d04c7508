"""Files that are read."""

from gpudoctor.manifest.effects import reads_file

@reads_file()
def imread(uri, **more): ...
