"""Videos that are read."""

from gpudoctor.manifest.effects import reads_file

class VideoReader:
    @reads_file()
    def __init__(self, uri, ctx=None, width=-1, height=-1, num_threads=0, fault_tol=-1): ...

class AVReader:
    @reads_file()
    def __init__(self, uri, ctx=None, sample_rate=44100, mono=True, width=-1, height=-1, num_threads=0): ...
