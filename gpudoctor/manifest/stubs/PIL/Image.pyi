"""Pictures that are read and written."""

from gpudoctor.manifest.effects import reads_file, saves

class Image:
    @saves(path="fp", whole=True)
    def save(self, fp, **more): ...
    def convert(self, **more) -> Image: ...

    copy = crop = filter = point = quantize = resize = rotate = transform = transpose = convert

@reads_file()
def open(fp, **more) -> Image: ...
def new(**more) -> Image: ...

blend = composite = fromarray = frombuffer = frombytes = merge = new
