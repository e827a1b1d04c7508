"""How a network is called for an image that is larger than what it takes."""

from gpudoctor.manifest.effects import followed

@followed()
def sliding_window_inference(inputs, roi_size, sw_batch_size, predictor, *args, **more):
    return predictor(inputs)
