"""What a process knows of the others."""

from gpudoctor.manifest.effects import FirstRank, GlobalRank, LocalRank, WorldSize, collective

class PartialState:
    process_index: GlobalRank
    local_process_index: LocalRank
    num_processes: WorldSize
    is_main_process: FirstRank
    is_local_main_process: FirstRank
    @collective(waits=True)
    def wait_for_everyone(self): ...
