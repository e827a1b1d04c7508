"""The objects that prepare a training, and what they know of the ranks."""

from accelerate.launchers import debug_launcher as debug_launcher
from accelerate.launchers import notebook_launcher as notebook_launcher
from accelerate.state import PartialState as PartialState

from gpudoctor.manifest.effects import FirstRank, GlobalRank, LocalRank, WorldSize, collective

class Accelerator:
    process_index: GlobalRank
    local_process_index: LocalRank
    num_processes: WorldSize
    is_main_process: FirstRank
    is_local_main_process: FirstRank
    @collective(gathers=True)
    def gather(self, tensor): ...
    @collective(gathers=True)
    def gather_for_metrics(self, input_data, use_gather_object=False): ...
    @collective(adds_up=True)
    def reduce(self, tensor, reduction="sum", scale=1.0): ...
    @collective()
    def pad_across_processes(self, tensor, dim=0, pad_index=0, pad_first=False): ...
    @collective(waits=True)
    def wait_for_everyone(self): ...
    @collective(uneven=True)
    def save_state(self, output_dir=None, safe_serialization=True): ...
    @collective(uneven=True)
    def get_state_dict(self, model, unwrap=True): ...
