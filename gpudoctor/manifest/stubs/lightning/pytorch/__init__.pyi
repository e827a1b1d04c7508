"""Lightning's own loop."""

from gpudoctor.manifest.effects import (
    FirstRank,
    GlobalRank,
    LocalRank,
    Setting,
    WorldSize,
    backpropagates,
    collective,
    saves,
)

class Trainer:
    global_rank: GlobalRank
    local_rank: LocalRank
    world_size: WorldSize
    is_global_zero: FirstRank
    strategy: Setting
    state: Setting
    @saves(path="filepath", checkpoint=True, by_parts=True)
    def save_checkpoint(self, filepath, weights_only=False, **more): ...
    @collective(waits=True)
    def fit(self, model, train_dataloaders=None, val_dataloaders=None, datamodule=None, **more): ...
    @collective(waits=True)
    def validate(self, model=None, dataloaders=None, **more): ...
    @collective(waits=True)
    def test(self, model=None, dataloaders=None, **more): ...
    @collective(waits=True)
    def predict(self, model=None, dataloaders=None, **more): ...
    # A module calls these of itself.
    @collective(gathers=True)
    def all_gather(self, data, group=None, sync_grads=False): ...
    @backpropagates(loss="loss")
    def manual_backward(self, loss, **more): ...
