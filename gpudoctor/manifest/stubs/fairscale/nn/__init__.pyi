"""Activations are computed again in the backward: that saves memory and takes charge of nothing."""

from gpudoctor.manifest.effects import gives_back

@gives_back(given="module")
def checkpoint_wrapper(module, offload_to_cpu=False): ...
