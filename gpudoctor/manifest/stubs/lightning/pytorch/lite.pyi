"""What Fabric was called before Lightning 2."""

from lightning.fabric import Fabric

from gpudoctor.manifest.effects import saves

class LightningLite(Fabric):
    # It waits for nobody.
    @saves(path="filepath", checkpoint=True, by_parts=True)
    def save(self, content, filepath): ...
