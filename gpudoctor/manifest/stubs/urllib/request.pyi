"""Files from the network."""

from gpudoctor.manifest.effects import downloads

@downloads(to="filename")
def urlretrieve(url, filename=None, reporthook=None, data=None): ...
@downloads(opens=True)
def urlopen(url, data=None, timeout=..., **more): ...
