"""The engine that owns wrapping, placement and saving, and steps the optimizer that it was given."""

from gpudoctor.manifest.effects import (
    GlobalRank,
    LocalRank,
    ModelOptimizer,
    OptimizerSchedule,
    OwnGpu,
    Setting,
    ShardedLoader,
    WorldSize,
    backpropagates,
    collective,
    counts_batches,
    gives_back,
    opens,
    saves,
    wraps,
)

class DeepSpeedEngine:
    global_rank: GlobalRank
    local_rank: LocalRank
    world_size: WorldSize
    device: OwnGpu
    global_steps: Setting
    micro_steps: Setting
    @gives_back(given="loss")
    @backpropagates(loss="loss")
    def backward(self, loss, retain_graph=False, scale_wrt_gas=True): ...
    @counts_batches()
    def step(self, lr_kwargs=None) -> None: ...
    @opens(keeps_gradients=True)
    def no_sync(self): ...
    def gradient_accumulation_steps(self) -> Setting: ...
    is_gradient_accumulation_boundary = train_batch_size = train_micro_batch_size_per_gpu = gradient_accumulation_steps
    @saves(path="save_dir", checkpoint=True, by_parts=True, waits=True)
    def save_checkpoint(
        self, save_dir, tag=None, client_state={}, save_latest=True, exclude_frozen_parameters=False
    ): ...
    @saves(path="save_dir", checkpoint=True, by_parts=True)
    @collective(uneven=True, of_parameters=True)
    def save_16bit_model(self, save_dir, save_filename="pytorch_model.bin", exclude_frozen_parameters=False): ...
    save_fp16_model = save_16bit_model
    @collective(uneven=True, of_parameters=True)
    def load_checkpoint(self, load_dir, tag=None, **more): ...
    # Private, and asked for all the same: what a Trainer saves under ZeRO-3 is put together so.
    @collective(gathers=True)
    def _zero3_consolidated_16bit_state_dict(self, exclude_frozen_parameters=False): ...
    @collective(gathers=True)
    def _consolidated_16bit_state_dict(self, exclude_frozen_parameters=False): ...

def init_distributed(
    dist_backend=None,
    auto_mpi_discovery=True,
    distributed_port=29500,
    verbose=True,
    timeout=None,
    init_method=None,
    dist_init_required=None,
    config=None,
    rank=-1,
    world_size=-1,
): ...
@wraps(module="model", data="training_data", topology="mpu | mesh_param")
def initialize(
    args=None,
    model=None,
    optimizer=None,
    model_parameters=None,
    training_data=None,
    lr_scheduler=None,
    distributed_port=29500,
    mpu=None,
    dist_init_required=None,
    collate_fn=None,
    config=None,
    mesh_param=None,
    config_params=None,
) -> tuple[DeepSpeedEngine, ModelOptimizer, ShardedLoader, OptimizerSchedule]: ...
