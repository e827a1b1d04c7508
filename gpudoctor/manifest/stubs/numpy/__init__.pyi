"""Arrays that are read and written."""

import numpy

from gpudoctor.manifest.effects import followed, reads_file, saves, surely

@reads_file()
def load(file, mmap_mode=None, **more): ...
@saves(path="file", whole=True)
def save(file, arr, allow_pickle=True, **more): ...
@saves(path="file", whole=True)
def savez(file, **more): ...
@saves(path="file", whole=True)
def savez_compressed(file, **more): ...
@saves(path="fname", whole=True)
def savetxt(fname, X, **more): ...
@followed()
def memmap(filename, dtype=None, mode="r+", **more):
    # It empties the file, as whoever saves does; the other modes read, or change what is there.
    if surely(mode == "w+"):
        save(filename, None)
    return numpy.fromfile(filename, dtype)
