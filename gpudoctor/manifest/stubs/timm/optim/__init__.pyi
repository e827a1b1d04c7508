"""What makes the optimizer that settings name."""

from gpudoctor.manifest.effects import followed

def AdamW(params, **more): ...
@followed()
def create_optimizer(args, model, filter_bias_and_bn=True):
    return AdamW(model)

@followed()
def create_optimizer_v2(model_or_params, opt="sgd", lr=None, weight_decay=0.0, momentum=0.9, **more):
    return AdamW(model_or_params)
