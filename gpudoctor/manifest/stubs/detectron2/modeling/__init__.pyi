"""Models of its registry."""

from gpudoctor.manifest.effects import followed

@followed()
def build_model(cfg):
    return RegisteredModel(cfg)

class RegisteredModel: ...
