"""Errors of wrapped models and of the backward pass."""

from __future__ import annotations

from gpudoctor.logs.error_texts.error_text import ErrorText

WRAPPER_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"compatible with static_graph set to True|Your training graph has changed in this iteration",
        "The model was wrapped with `static_graph=True`, and its graph has changed between steps.",
        "Remove `static_graph=True`, or let every step use the same layers.",
    ),
    ErrorText(
        r"your LightningModule has parameters that were not used in producing the loss",
        "Some parameters of the wrapped model got no gradient in this step, and DDP waits for them.",
        "Use or remove them, or set `strategy='ddp_find_unused_parameters_true'`.",
        code="GPU112",
        library="lightning",
    ),
    ErrorText(
        r"Expected to have finished reduction in the prior iteration|"
        r"Parameters? (?:indices )?which did not receive grad for rank \d",
        "Some parameters of the wrapped model got no gradient in this step, and DDP waits for them.",
        "Remove the layers from the model, use them, or wrap with `find_unused_parameters=True`. "
        "`TORCH_DISTRIBUTED_DEBUG=DETAIL` names them.",
        code="GPU112",
    ),
    ErrorText(
        r"Expected to mark a variable ready only once|has been marked as ready twice",
        "A parameter was used by two backwards of one step: reentrant checkpointing, or two forwards that share it.",
        "Use `checkpoint(..., use_reentrant=False)`.",
        likely=("GPU708", "GPU707"),
    ),
    ErrorText(
        r"grad\.device\(\) == bucket_view\.device\(\)",
        "A gradient lies on another device than where DDP has gathered the model's: a part of the model was moved "
        "after it was wrapped, or this rank computes on another GPU than that of its model.",
        "Move the model first and wrap it then, and call `torch.cuda.set_device(local_rank)` before either.",
        likely=("GPU206", "GPU207"),
    ),
    ErrorText(
        r"DDP expects same model across all ranks|appears not to match (?:sizes|strides) of the same param",
        "The model is not the same on all ranks.",
        "Build it from the same settings on every rank, and nothing in it from the rank or from data.",
    ),
    ErrorText(
        r"gradients are inconsistent between workers",
        "The gradients differ between ranks after they were averaged: ranks skip or repeat parts of the model.",
        "Start with `--ddp-backend=legacy_ddp`, or with `--find-unused-parameters`.",
        library="fairseq",
    ),
    ErrorText(
        r"DistributedDataParallel is not needed when a module doesn't have any parameters? that requires? a gradient",
        "A module in which nothing is trained was wrapped.",
        "Wrap after the layers that train are unfrozen, or do not wrap it.",
        code="GPU118",
    ),
    ErrorText(
        r"Modules with uninitialized parameters can't be used with",
        "The model has lazy layers, which have no shape before the first forward.",
        "Run one batch through the model on every rank before it is wrapped, and broadcast the result from rank 0.",
    ),
    ErrorText(
        r"SyncBatchNorm layers only work with GPU modules|SyncBatchNorm expected input tensor to be on|"
        r"SyncBatchNorm is only supported within torch\.nn\.parallel\.DistributedDataParallel",
        "SyncBatchNorm works only in a model on GPUs that DistributedDataParallel wraps.",
        "Convert the model, move it to the rank's GPU and wrap it with DDP, in this order; without DDP do not convert.",
        code="GPU110",
    ),
    ErrorText(
        r"module must (?:be on the same type of devices|have its parameters and buffers on device)|"
        r"device_ids and output_device arguments only work with single-device|"
        r"device_ids can only be None or contain a single element",
        "The model is not on the GPU that its wrapper was told.",
        "Move the model to the rank's GPU first: `model.to(local_rank)`, then `DDP(model, device_ids=[local_rank])`.",
        likely=("GPU207", "GPU208"),
    ),
    ErrorText(
        r"'(?:DistributedDataParallel|DataParallel|FullyShardedDataParallel|OptimizedModule)' object has no attribute",
        "An attribute of the model was read from its wrapper.",
        "Read it from the model inside: `model.module.…`.",
        code="GPU104",
    ),
    ErrorText(
        r"cannot assign (?:module|parameters?|buffer) before Module\.__init__\(\) call",
        "A module sets an attribute before `super().__init__()`.",
        "Call `super().__init__()` first.",
        code="GPU214",
    ),
    ErrorText(
        r"\b(?:Module|DistributedDataParallel|DataParallel)\.\w+\(\) (?:got|takes|missing)",
        "A method of the model has the name of one that every module has (`train`, `eval`): a wrapper has its own.",
        "Give the method another name, and call it on the model inside: `model.module.…`.",
        likely=("GPU104",),
    ),
    ErrorText(
        r"AttributeError: '\w+' object has no attribute 'module'",
        "`.module` was read from a model that is not wrapped here: nothing wraps it on this path, or it was unwrapped "
        "before.",
        "Take the model itself, or `getattr(model, 'module', model)` where it may be either.",
        likely=("GPU104",),
    ),
    ErrorText(
        r"modified by an inplace operation",
        "A tensor that a backward needs was changed before it. Under DDP that often is a second forward in the same "
        "step, which copies the buffers again.",
        "Call the wrapped model once a step, or wrap with `broadcast_buffers=False`.",
        likely=("GPU117",),
    ),
    ErrorText(
        r"a leaf [Vv]ariable that requires grad (?:is being used|has been used) in an in-place operation",
        "A parameter was changed in place while gradients are recorded.",
        "Change it under `torch.no_grad()`.",
    ),
    ErrorText(
        r"grad can be implicitly created only for scalar outputs",
        "The loss has several numbers: `DataParallel` gathers one from each GPU.",
        "Call `loss.mean().backward()`.",
        likely=("GPU108",),
    ),
    ErrorText(
        r"element 0 of tensors does not require grad",
        "The loss does not depend on any parameter that is trained: all are frozen, or the graph was cut "
        "(`detach`, `no_grad`, a gather, checkpointing of frozen inputs).",
        "Look at what requires a gradient; with checkpointing of a frozen model call "
        "`model.enable_input_require_grads()` or use `use_reentrant=False`.",
        likely=("GPU507",),
    ),
    ErrorText(
        r"Trying to backward through the graph a second time",
        "A graph was used that an earlier backward had freed: a loss or a state is kept from an earlier step.",
        "Detach what is carried from step to step, and call `backward` once for each forward.",
    ),
    ErrorText(
        r"(?:different number of tensors was saved|different metadata than during the forward pass|"
        r"save more tensors during recomputation)",
        "Checkpointing did the forward again and got other tensors: it depends on a random choice, a cache, or on "
        "what happened in between.",
        "Let the checkpointed part do the same each time; turn off `use_cache`, and keep autocast the same.",
    ),
    ErrorText(
        r"Function '?\w+'? returned nan values in its",
        "Anomaly detection found the first operation whose gradient is not a number.",
        "Look at what this operation is given: a division by zero, a root or logarithm of 0, an overflow of FP16.",
    ),
    ErrorText(
        r"Attempting to unscale FP16 gradients",
        "The parameters themselves are FP16, and a GradScaler needs them in FP32.",
        "Load the model in FP32 (or what is trained of it), and let autocast compute in FP16; or train in BF16.",
    ),
    ErrorText(
        r"unscale_\(\) has already been called|step\(\) has already been called since|unscale_\(\) is being called "
        r"after step|No inf checks were recorded",
        "The GradScaler was called in another order than scale, unscale, step, update, once each.",
        "Unscale and clip once a step, only where the optimizer steps.",
        code="GPU704",
    ),
    ErrorText(
        r"Attempted (?:step|unscale_|update) but _scale is None",
        "The GradScaler never scaled a loss: `backward` was called without it.",
        "`scaler.scale(loss).backward()`, or the framework's own `backward`.",
        likely=("GPU906",),
    ),
    ErrorText(
        r"Current loss scale already at minimum|Minimum loss scale reached",
        "In FP16 the gradients overflow at every scale: the loss is not a number, or training diverges.",
        "Train in BF16, lower the learning rate, or look for a batch whose loss is not finite.",
        library="deepspeed",
    ),
    ErrorText(
        r"[Ll]oss (?:is|became|has become) (?:tensor\()?(?:nan|inf|infinite|NaN)|Loss became infinite or NaN|"
        r"NaN or Inf found in loss|The loss returned in `training_step` is (?:nan|inf)|"
        r"(?:NaN|nan|Inf|inf) (?:loss|gradient)s? (?:encountered|detected|found)|Detected (?:NaN|Inf) (?:in )?loss",
        "The loss was not a finite number, and the program stops at that.",
        "Lower the learning rate, clip gradients, take BF16 in place of FP16, and look at the batch of this rank.",
    ),
    ErrorText(
        r"optimizer got an empty parameter list",
        "An optimizer was given no parameters: all of them are frozen, a generator of them was used up before, or this "
        "rank's part of a model that is divided or sharded has none of those that were chosen.",
        "Print what it is given, on this rank; make the optimizer of `model.parameters()` after the model is wrapped.",
    ),
    ErrorText(
        r"Caught StopIteration in replica",
        "The copies of a model that `DataParallel` makes have no parameters of their own: `next(self.parameters())` in "
        "a `forward` finds none.",
        "Ask a tensor for its device or dtype, such as `x.device`, or train with DistributedDataParallel.",
    ),
    ErrorText(
        r"Gather got an input of invalid size|chunk expects at least a 1-dimensional tensor",
        "`DataParallel` cannot put together what its GPUs return, or divide what it is given.",
        "Return tensors whose first dimension is the batch, or train with DistributedDataParallel.",
        likely=("GPU107",),
    ),
    ErrorText(
        r"Expected more than 1 value per channel when training",
        "A batch of one sample reached a BatchNorm: the last batch of a shard, or a batch of one for each GPU.",
        "`drop_last=True` for the training loader.",
    ),
)
