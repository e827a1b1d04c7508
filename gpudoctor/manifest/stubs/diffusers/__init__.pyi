"""What diffusers keeps beside a model."""

from gpudoctor.manifest.effects import overwrites

class EMAModel:
    @overwrites(of="parameters")
    def copy_to(self, parameters) -> None: ...
    restore = copy_to
