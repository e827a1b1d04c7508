"""What diffusers takes out of a model."""

from torch.nn import ModuleList

from gpudoctor.manifest.effects import followed

# It has no forward: the model that holds these layers runs them.
@followed()
def AttnProcsLayers(state_dict):
    return ModuleList(state_dict.values())
