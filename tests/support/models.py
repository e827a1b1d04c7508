"""All models of libraries, also those that are loaded when a program names them."""

from gpudoctor.lint.interface.library_call import Models
from gpudoctor.lint.library.register import MODELS


def every_model() -> Models:
    """The register with all that there is in it."""
    for beginning in list(MODELS.later):
        MODELS.load(beginning)
    return MODELS
