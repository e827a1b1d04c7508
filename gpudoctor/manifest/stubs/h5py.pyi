"""Files that are read."""

from gpudoctor.manifest.effects import reads_file

class File:
    @reads_file()
    def __init__(self, name, **more): ...
