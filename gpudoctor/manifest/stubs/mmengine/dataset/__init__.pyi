"""What deals out data: the runner tells it the epochs."""

from torch.utils.data.distributed import DistributedSampler

from gpudoctor.manifest.effects import followed

@followed()
def DefaultSampler(dataset, shuffle=True, seed=None, round_up=True):
    return DistributedSampler(dataset, shuffle=shuffle)
