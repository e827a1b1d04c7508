"""Files of Google Drive."""

from gpudoctor.manifest.effects import downloads

@downloads(to="output")
def download(url=None, output=None, **more): ...
@downloads(to="path")
def cached_download(url=None, path=None, **more): ...
@downloads(to="output")
def download_folder(url=None, id=None, output=None, **more): ...
