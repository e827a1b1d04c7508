"""What a process knows of the others."""

from gpudoctor.manifest.effects import (
    FirstRank,
    GlobalRank,
    LocalRank,
    OwnGpu,
    Setting,
    WorldSize,
    collective,
    gives_back,
    opens,
    shows,
)

class PartialState:
    process_index: GlobalRank
    local_process_index: LocalRank
    num_processes: WorldSize
    is_main_process: FirstRank
    is_local_main_process: FirstRank
    device: OwnGpu
    distributed_type: Setting
    @collective(waits=True)
    def wait_for_everyone(self): ...
    @opens()
    def main_process_first(self): ...
    @opens()
    def local_main_process_first(self): ...
    @gives_back(given="function")
    def on_main_process(self, function=None): ...
    @gives_back(given="function")
    def on_local_main_process(self, function=None): ...
    @shows()
    def print(self, **more): ...
