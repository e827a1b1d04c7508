"""What a process knows of the others."""

from accelerate.utils import DistributedType as DistributedType

from gpudoctor.manifest.effects import (
    FirstRank,
    GlobalRank,
    LocalRank,
    OwnGpu,
    Setting,
    WorldSize,
    collective,
    opens,
    shows,
    surely,
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
    def on_main_process(self, function=None):
        def only(*args, **more):
            if self.is_main_process:
                return function(*args, **more)
        return only
    def on_local_main_process(self, function=None):
        def only(*args, **more):
            if self.is_local_main_process:
                return function(*args, **more)
        return only
    def on_last_process(self, function):
        def only(*args, **more):
            if self.process_index == self.num_processes - 1:
                return function(*args, **more)
        return only
    def on_process(self, function=None, process_index=None):
        def only(*args, **more):
            if self.process_index == process_index:
                return function(*args, **more)
        def decorated(function):
            return self.on_process(function, process_index)
        return decorated if surely(function is None) else only
    @shows()
    def print(self, **more): ...
