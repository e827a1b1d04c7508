"""Files from the network."""

from gpudoctor.manifest.effects import downloads

@downloads(to="out")
def download(url, out=None, **more): ...
