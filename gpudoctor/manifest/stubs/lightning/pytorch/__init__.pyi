"""Lightning's own loop."""

from gpudoctor.manifest.effects import FirstRank, GlobalRank, LocalRank, WorldSize

class Trainer:
    global_rank: GlobalRank
    local_rank: LocalRank
    world_size: WorldSize
    is_global_zero: FirstRank
