"""Models."""

from gpudoctor.manifest.effects import followed

@followed()
def safe_model_name(model_name, remove_source=True):
    return model_name
