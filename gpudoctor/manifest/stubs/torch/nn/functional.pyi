"""Losses and layers as functions."""

from gpudoctor.manifest.effects import computes

@computes(meets=True)
def cross_entropy(input, target, **more): ...

nll_loss = l1_loss = mse_loss = smooth_l1_loss = cross_entropy
kl_div = binary_cross_entropy = binary_cross_entropy_with_logits = cross_entropy

@computes(meets=True)
def linear(input, weight, **more): ...

embedding = conv1d = conv2d = conv3d = cosine_similarity = linear

@computes(spreads=True)
def normalize(input, **more): ...

layer_norm = group_norm = instance_norm = rms_norm = normalize

@computes(spreads=True)
def gumbel_softmax(logits, **more): ...
@computes(first_alone=True)
def interpolate(input, **more): ...

upsample = upsample_nearest = upsample_bilinear = pad = one_hot = fold = interpolate
adaptive_avg_pool1d = adaptive_avg_pool2d = adaptive_avg_pool3d = interpolate
adaptive_max_pool1d = adaptive_max_pool2d = adaptive_max_pool3d = interpolate

@computes(first_alone=True)
def affine_grid(theta, **more): ...
@computes(first_alone=True)
def ctc_loss(log_probs, **more): ...
