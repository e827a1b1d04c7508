"""Where they come from, and where to."""

from gpudoctor.manifest.effects import downloads

@downloads(to="out_dir")
def download_and_unzip(url, out_dir, chunk_size=1024): ...
@downloads(to="save_path")
def download_url(url, save_path, chunk_size=1024): ...
