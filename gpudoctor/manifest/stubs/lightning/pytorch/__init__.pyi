"""Lightning's own loop."""

from gpudoctor.manifest.effects import FirstRank, GlobalRank, LocalRank, Setting, WorldSize, saves

class Trainer:
    global_rank: GlobalRank
    local_rank: LocalRank
    world_size: WorldSize
    is_global_zero: FirstRank
    strategy: Setting
    state: Setting
    @saves(path="filepath", checkpoint=True, by_parts=True)
    def save_checkpoint(self, filepath, weights_only=False, **more): ...
