"""What fetches data sets. The sets themselves are models in Python."""

from gpudoctor.manifest.effects import downloads

@downloads(to="root")
def download_url(url, root, **more): ...
@downloads(to="download_root")
def download_and_extract_archive(url, download_root, **more): ...
@downloads(to="root")
def download_file_from_google_drive(file_id, root, **more): ...
