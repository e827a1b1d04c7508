"""What other parts speak of, and what files hold."""

from gpudoctor.manifest.effects import matters

class Tensor: ...

@matters()
def load(f, map_location=None, pickle_module=None, **more): ...
