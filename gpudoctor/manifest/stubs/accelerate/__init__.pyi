"""The objects that prepare a training, and what they know of the ranks."""

from accelerate.launchers import debug_launcher as debug_launcher
from accelerate.launchers import notebook_launcher as notebook_launcher
from accelerate.state import PartialState as PartialState
from accelerate.utils import DataLoaderConfiguration as DataLoaderConfiguration
from accelerate.utils import DeepSpeedPlugin as DeepSpeedPlugin
from accelerate.utils import DistributedDataParallelKwargs as DistributedDataParallelKwargs
from accelerate.utils import DistributedType as DistributedType
from accelerate.utils import FullyShardedDataParallelPlugin as FullyShardedDataParallelPlugin

from gpudoctor.manifest.effects import (
    FirstRank,
    GlobalRank,
    LocalRank,
    OwnGpu,
    Setting,
    WorldSize,
    backpropagates,
    clips,
    collective,
    configures,
    gives_back,
    held,
    installed_before,
    opens,
    possibly,
    prepares,
    saves,
    shows,
    skips_batches,
    surely,
    unscales,
)

@skips_batches(loader="dataloader")
def skip_first_batches(dataloader, num_batches=0): ...

class Accelerator:
    process_index: GlobalRank
    local_process_index: LocalRank
    num_processes: WorldSize
    is_main_process: FirstRank
    is_local_main_process: FirstRank
    device: OwnGpu
    state: Setting
    sync_gradients: Setting
    gradient_accumulation_steps: Setting
    distributed_type: Setting
    deepspeed_plugin: Setting
    mixed_precision: Setting
    trackers: Setting
    @configures(
        spreading="deepspeed_plugin | deepspeed_plugins | fsdp_plugin | megatron_lm_plugin | parallelism_config",
        accumulating="gradient_accumulation_plugin | deepspeed_plugin",
    )
    def __init__(
        self,
        device_placement=True,
        split_batches=...,
        mixed_precision=None,
        gradient_accumulation_steps=1,
        cpu=False,
        dataloader_config=None,
        deepspeed_plugin=None,
        fsdp_plugin=None,
        *,
        megatron_lm_plugin=None,
        gradient_accumulation_plugin=None,
        deepspeed_plugins=None,
        parallelism_config=None,
        project_config=None,
        kwargs_handlers=None,
        **more,
    ):
        listed = surely(isinstance(kwargs_handlers, list))
        self._searches = self._static = self.state if possibly(kwargs_handlers is not None) and not listed else False
        for each in kwargs_handlers if listed else []:
            self._searches = held(each, "find_unused_parameters", self._searches)
            self._static = held(each, "static_graph", self._static)
        self._before_saving = []
        self.project_configuration = project_config
    @prepares()
    def prepare(self, *args, device_placement=None): ...
    @prepares()
    def prepare_model(self, model, device_placement=None, evaluation_mode=False): ...
    @prepares()
    def prepare_data_loader(self, data_loader, device_placement=None, slice_fn_for_dispatch=None): ...
    @prepares()
    def prepare_optimizer(self, optimizer, device_placement=None): ...
    @skips_batches(loader="dataloader")
    def skip_first_batches(self, dataloader, num_batches=0): ...
    @gives_back(given="model", unwrapped=True)
    def unwrap_model(self, model, keep_fp32_wrapper=True, **more): ...
    @backpropagates(loss="loss")
    def backward(self, loss, **more): ...
    @clips(of="parameters", bound="max_norm")
    def clip_grad_norm_(self, parameters, max_norm, norm_type=2): ...
    @unscales()
    def unscale_gradients(self, optimizer=None): ...
    @collective(gathers=True)
    def gather(self, tensor): ...
    @collective(gathers=True, drops_padding=True)
    def gather_for_metrics(self, input_data, use_gather_object=False): ...
    @collective(adds_up=True, sum_by="reduction")
    def reduce(self, tensor, reduction="sum", scale=1.0): ...
    @gives_back(given="tensor")
    @collective()
    def pad_across_processes(self, tensor, dim=0, pad_index=0, pad_first=False): ...
    @collective(waits=True)
    def wait_for_everyone(self): ...
    # Every rank that saves calls it first, with its models and what it would write of them.
    def register_save_state_pre_hook(self, hook):
        self._before_saving = [*self._before_saving, hook]
    @collective(uneven=True, of_states=True)
    def save_state(self, output_dir=None, safe_serialization=True):
        if surely(self.project_configuration.automatic_checkpoint_naming) and not installed_before("accelerate", 0, 22):
            self.wait_for_everyone()
        for hook in self._before_saving:
            hook(self.state, self.state, output_dir)
    @collective(uneven=True, of_parameters=True)
    def get_state_dict(self, model, unwrap=True): ...
    def no_sync(self, model):
        return model.no_sync()
    @opens(keeps_gradients=True)
    def accumulate(self, **more): ...
    @opens()
    def autocast(self, **more): ...
    @opens()
    def main_process_first(self): ...
    @opens()
    def local_main_process_first(self): ...
    on_main_process = PartialState.on_main_process
    on_local_main_process = PartialState.on_local_main_process
    on_last_process = PartialState.on_last_process
    on_process = PartialState.on_process
    @saves(path="f", checkpoint=True, by_parts=True)
    def save(self, obj, f, safe_serialization=False): ...
    @collective(uneven=True, of_parameters=True)
    @saves(path="save_directory", checkpoint=True, by_parts=True)
    def save_model(self, model, save_directory, max_shard_size="10GB", safe_serialization=True): ...
    @shows()
    def print(self, **more): ...
    @shows()
    def log(self, values, step=None, log_kwargs={}): ...
