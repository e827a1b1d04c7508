"""Arrays that are written."""

from gpudoctor.manifest.effects import saves

@saves(path="file_name", whole=True)
def savemat(file_name, mdict, **more): ...
