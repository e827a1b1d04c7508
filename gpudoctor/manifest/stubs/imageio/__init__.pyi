"""Files that are read and written."""

from gpudoctor.manifest.effects import reads_file, saves

@reads_file()
def imread(uri, **more): ...
@saves(path="uri", whole=True)
def imwrite(uri, im, **more): ...

imsave = imwrite

@saves(path="uri", whole=True)
def mimwrite(uri, ims, **more): ...

mimsave = mimwrite
