"""Tables of text: who writes rows writes the file that is open."""

from gpudoctor.manifest.effects import gives_back

@gives_back(given="csvfile")
def writer(csvfile, dialect="excel", **more): ...
@gives_back(given="f")
def DictWriter(f, fieldnames, restval="", extrasaction="raise", dialect="excel", **more): ...
