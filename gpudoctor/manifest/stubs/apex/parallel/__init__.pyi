"""What wraps optimizers: it hands on all that it is asked for, and steps when they do."""

from gpudoctor.manifest.effects import gives_back

class LARC:
    @gives_back(given="optimizer")
    def __init__(self, optimizer, trust_coefficient=0.02, clip=True, eps=1e-8): ...
