"""What scripts call without an `Accelerator`."""

import random

import numpy
import torch
from accelerate.state import PartialState

from gpudoctor.manifest.effects import Setting, collective, followed, gives_back, possibly

@collective(gathers=True)
def gather(tensor): ...
@collective(gathers=True, objects=True)
def gather_object(object): ...
@collective(adds_up=True)
def reduce(tensor, reduction="mean", scale=1.0): ...
@collective(hands_on=True)
def broadcast(tensor, from_process=0): ...
@collective(writes="object_list", hands_on=True, objects=True)
def broadcast_object_list(object_list, from_process=0): ...
@collective()
def pad_across_processes(tensor, dim=0, pad_index=0, pad_first=False): ...
@gives_back(given="model", unwrapped=True)
def extract_model_from_parallel(model, **more): ...
@collective(waits=True)
def wait_for_everyone(): ...
def set_seed(seed, device_specific=False, deterministic=False):
    own = seed + PartialState().process_index if possibly(device_specific) else seed
    random.seed(own)
    numpy.random.seed(own)
    torch.manual_seed(own)

class DistributedType: ...

@followed()
class DistributedDataParallelKwargs:
    def __init__(
        self,
        dim=0,
        broadcast_buffers=True,
        bucket_cap_mb=25,
        find_unused_parameters=False,
        check_reduction=False,
        gradient_as_bucket_view=False,
        static_graph=False,
        **more,
    ):
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph

@followed()
class DataLoaderConfiguration:
    def __init__(
        self,
        split_batches=False,
        dispatch_batches=None,
        even_batches=True,
        use_seedable_sampler=False,
        data_seed=None,
        non_blocking=False,
        use_stateful_dataloader=False,
    ):
        self.split_batches = split_batches
        self.dispatch_batches = dispatch_batches
        self.even_batches = even_batches

@followed()
class DeepSpeedPlugin:
    _launched: Setting
    def __init__(self, hf_ds_config=None, gradient_accumulation_steps="auto", gradient_clipping="auto", *more, **told):
        # Of what stands in no settings the launcher may say something.
        stage = told.get("zero_stage", self._launched)
        if possibly(hf_ds_config is not None):
            self.hf_ds_config = hf_ds_config
        else:
            self.hf_ds_config = {
                "gradient_accumulation_steps": gradient_accumulation_steps,
                "gradient_clipping": gradient_clipping,
                "zero_optimization": {"stage": stage},
            }

@followed()
class FullyShardedDataParallelPlugin:
    def __init__(self, fsdp_version=None, **more):
        self.fsdp_version = fsdp_version

@followed()
class GradientAccumulationPlugin:
    def __init__(self, num_steps=1, adjust_scheduler=True, sync_with_dataloader=True, sync_each_batch=False):
        self.num_steps = num_steps

@followed()
class ProjectConfiguration:
    def __init__(
        self,
        project_dir=None,
        logging_dir=None,
        automatic_checkpoint_naming=False,
        total_limit=None,
        iteration=0,
        save_on_each_node=False,
    ):
        self.automatic_checkpoint_naming = automatic_checkpoint_naming
