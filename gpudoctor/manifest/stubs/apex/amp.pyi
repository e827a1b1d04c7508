"""Mixed precision: models and optimizers come back as they were given."""

import contextlib

from gpudoctor.manifest.effects import followed, surely

@followed()
def initialize(models, optimizers=None, **more):
    return models if surely(optimizers is None) else (models, optimizers)

@followed()
def master_params(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]

@followed()
def scale_loss(loss, optimizers, **more):
    return contextlib.nullcontext(loss)
