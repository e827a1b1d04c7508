"""What is asked of a server."""

from gpudoctor.manifest.effects import downloads

@downloads(opens=True)
def get(url, params=None, **more): ...
@downloads(opens=True)
def request(method, url, **more): ...
