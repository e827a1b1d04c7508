"""Errors of models whose parameters are sharded: FSDP, `fully_shard`, DTensor, meshes."""

from __future__ import annotations

from gpudoctor.logs.error_texts.error_text import ErrorText

SHARDING_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"size of tensor a \(\d+\) must match the size of tensor b",
        "A gradient has another size than its parameter or the optimizer's state of it: under FSDP it is whole after a "
        "backward in `no_sync()`, and the parameter is a shard; or the state was loaded from another model.",
        "Step after a backward outside of `no_sync()`, also at the end of the data and of an epoch.",
        likely=("GPU702",),
        inside=r"optimizer\.py:(?:_use_grad|maybe_fallback)",
    ),
    ErrorText(
        r"setStorage: .* out of bounds for storage of size 0",
        "The memory of a parameter was freed: mostly by FSDP, which gives it back between forwards, where a module "
        "inside of the model was called and not the wrapper.",
        "Call the wrapped model, or gather its parameters first (`FSDP.summon_full_params`).",
        likely=("GPU102",),
    ),
    ErrorText(
        r"module (?:inputs and input|outputs and output)_layouts should have same length",
        "The plan of `parallelize_module` gives this module another number of layouts than it has inputs or outputs.",
        "Give one layout for each positional argument in their order, `None` for arguments other than tensors.",
    ),
    ErrorText(
        r"assigned grad has data of a different type",
        "A gradient has another dtype than its parameter: the model holds parameters of two dtypes.",
        "Bring all of them to one dtype before the model is wrapped, and let mixed precision do the rest.",
    ),
    ErrorText(
        r"(?:Must flatten tensors with|requires) uniform `?requires_grad",
        "FSDP makes one flat parameter of a module in which some parameters are trained and others are frozen, as with "
        "adapters.",
        "Wrap with `use_orig_params=True`, take `fully_shard`, or let the wrapping policy separate them.",
    ),
    ErrorText(
        r"(?:Must flatten tensors with|requires|expects) (?:uniform|the same)(?: original parameter)? `?dtype",
        "FSDP makes one group of a module whose parameters have different dtypes.",
        "Bring the parameters to one dtype before the module is wrapped, or wrap those of another dtype by themselves.",
    ),
    ErrorText(
        r"Must flatten tensors on the same device|FSDP only supports single device modules|"
        r"To support a module with both CPU and GPU params|does not support modules with different device types",
        "FSDP was given a module whose parameters are on several devices.",
        "Pass `device_id=local_rank` to FSDP, and load without `device_map`.",
        likely=("GPU909",),
    ),
    ErrorText(
        r"Inconsistent compute device and `?device_id`? on rank \d+",
        "The model is on another GPU than FSDP was told: the process has not chosen its GPU.",
        "Call `torch.cuda.set_device(local_rank)` first, and move the model to this GPU.",
        likely=("GPU204", "GPU206"),
    ),
    ErrorText(
        r"`sync_module_states=True`, which requires them to be on GPU",
        "FSDP is to send the weights of rank 0 to the others, and they are on the CPU.",
        "Pass `device_id=torch.cuda.current_device()`.",
    ),
    ErrorText(
        r"FSDP-managed module (?:unexpectedly has parameters on|with parameter CPU offloading)|"
        r"FSDP parameters should be materialized on CPU",
        "A sharded model was moved after it was wrapped.",
        "Move nothing after `FSDP(...)` or `fully_shard(...)`.",
    ),
    ErrorText(
        r"fully_shard does not support containers|fully_shard doesn't support scalar parameters|"
        r"FSDP doesn't support scalar parameters",
        "`fully_shard` takes modules with a `forward`, and parameters with at least one dimension.",
        "Shard each module of the list, and make the parameter a tensor of one number.",
        likely=("GPU932",),
    ),
    ErrorText(
        r"FSDP does not support deepcopy",
        "A sharded model cannot be copied.",
        "Make the copy before it is sharded.",
        likely=("GPU935",),
    ),
    ErrorText(
        r"'FSDP\w*' object has no attribute 'no_sync'",
        "`no_sync` is DDP's; a model of `fully_shard` has none.",
        "`model.set_requires_gradient_sync(last_microbatch)`.",
        likely=("GPU936",),
    ),
    ErrorText(
        r"got mixed torch\.Tensor and DTensor",
        "A sharded parameter met a plain tensor: its module was used outside of its `forward`, where nothing gathers "
        "it.",
        "Call the model itself, or `register_fsdp_forward_method` for the method that is called.",
        likely=("GPU102", "GPU931"),
    ),
    ErrorText(
        r"'weight' must be 2-D|weight should have at least three dimensions|"
        r"The size of tensor a \(0\) must match|mat2 must be a matrix, got 1-D tensor",
        "A parameter was empty or flat where its module needed it: it is sharded (FSDP, ZeRO-3) and used outside of "
        "the `forward` that gathers it.",
        "Call the wrapped model, not a method or a layer of it; for other uses gather first "
        "(`FSDP.summon_full_params`, `deepspeed.zero.GatheredParameters`).",
        likely=("GPU102",),
    ),
    ErrorText(
        r"is all-gathering \d+ parameters while rank|is all-gathering parameters for .* while rank",
        "Ranks went through the sharded modules in different orders.",
        "Let every rank call the same modules in the same order.",
        likely=("GPU512",),
    ),
    ErrorText(
        r"requires running forward through the root module first|state has already been lazily initialized|"
        r"should only be called on the root FSDP instance|Please call `no_sync\(\)` on root FSDP module|"
        r"Expected to be root|Expects .* to be the root|Asserts FSDP instance is: ",
        "A part of a sharded model was used before the whole: its outermost module begins each step.",
        "Shard the whole model last (`fully_shard(model)`), and call it, not a part of it.",
        likely=("GPU931", "GPU102"),
    ),
    ErrorText(
        r"FSDP auto wrapping requires modules to not already have FSDP applied|"
        r"Cannot apply `replicate\(\)` on a Module",
        "A module that is sharded was to be sharded again.",
        "Wrap once: inner modules by the policy, the whole model at the end.",
        likely=("GPU105", "GPU901"),
    ),
    ErrorText(
        r"FSDP needs a non-CPU accelerator device|FSDP does not support CPU only execution|"
        r"FSDP is only available on GPU",
        "FSDP found no GPU.",
        "Look at `CUDA_VISIBLE_DEVICES`, at what the scheduler gives each task, and at `torch.version.cuda`.",
    ),
    ErrorText(
        r"FSDP assumes \S+ is in the state_dict",
        "FSDP met a state_dict with other names than its own: a hook or a wrapper has changed them.",
        "Ask for the state by `torch.distributed.checkpoint.state_dict.get_model_state_dict`.",
    ),
    ErrorText(
        r"state_dict`+ can only be used when parameters are flatten|"
        r"load_sharded_state_dict can only be called when parameters are flattened",
        "A sharded state is wanted from a model that FSDP does not shard: one process, the strategy NO_SHARD, "
        "or this part of it is not wrapped.",
        "Start several ranks, or ask for `FULL_STATE_DICT`.",
    ),
    ErrorText(
        r"KeyError: None",
        "A state of FSDP is wanted before the model is wrapped by it.",
        "Wrap (`prepare`) the model first, then load the checkpoint.",
        inside=r"fully_sharded_data_parallel\.py:(?:set_state_dict_type|state_dict_type)",
    ),
    ErrorText(
        r"Could not find the transformer layer class|fsdp_transformer_layer_cls_to_wrap",
        "The class of layers that FSDP is to wrap is named, and the model has none of this name.",
        "Print the model, and name the class of its repeated block.",
        library="accelerate",
    ),
    ErrorText(
        r"Mesh should not be bigger than default world size|DeviceMesh only support homogeneous hardware|"
        r"multiplied should equal the world size|Invalid parallel dims: ",
        "There are fewer or more processes than the mesh of the parallelism is for.",
        "Start as many processes as its sizes multiplied.",
    ),
    ErrorText(
        r"Non-root FSDP instance's `?_is_root",
        "A part of the model that is wrapped in FSDP itself was called before the whole model was.",
        "Call the whole wrapped model first, not a part of it.",
        likely=("GPU102",),
    ),
    ErrorText(
        r"All parameters of the original module must be|`?FlatParameter`?.* is expected to be|"
        r"The tensor has a non-zero number of elements, but its data is not allocated yet",
        "A parameter had no storage when it was used: it is sharded, and was used outside of the `forward` that "
        "gathers it.",
        "Call the wrapped model, not a part of it.",
        likely=("GPU102",),
    ),
)
