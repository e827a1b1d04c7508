"""Pictures that are written."""

from gpudoctor.manifest.effects import saves

@saves(path="fp", whole=True)
def save_image(tensor, fp, **more): ...
