"""Files that are read."""

from gpudoctor.manifest.effects import reads_file

@reads_file()
def read_image(path, **more): ...
@reads_file()
def decode_image(input, **more): ...
@reads_file()
def read_video(filename, **more): ...
