"""Errors of checkpoints and of weights that are loaded."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText

_deepspeed = partial(ErrorText, library="deepspeed")

CHECKPOINT_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"Missing key\(s\)[^:]*: \"module\.[\s\S]*Unexpected key\(s\)[^:]*: \"(?!module\.)|"
        r"Missing key\(s\)[^:]*: \"(?!module\.)[\s\S]*Unexpected key\(s\)[^:]*: \"module\.",
        "The checkpoint has the names of the wrapper (`module.`), and the model does not, or the other way round.",
        "Save `model.module.state_dict()`.",
        code="GPU603",
    ),
    ErrorText(
        r"(?:Missing|Unexpected) key\(s\)[^:]*: \"module\.",
        "Names that begin with `module.` are on one side only: one of the checkpoint and the model is of a wrapper, or "
        "they are different models.",
        "Compare `list(state)[:3]` with `list(model.state_dict())[:3]`; save `model.module.state_dict()`.",
        likely=("GPU603",),
    ),
    _deepspeed(
        r"copying a param with shape torch\.Size\(\[0\]\) from checkpoint|"
        r"shape torch\.Size\(\[1\]\) from checkpoint, the shape in current model is torch\.Size\(\[\d+, ",
        "The checkpoint holds empty parameters: it was written from a model that DeepSpeed's ZeRO-3 had partitioned, "
        "without gathering it.",
        "Save with `engine.save_16bit_model` or `accelerator.get_state_dict`; `zero_to_fp32.py` in the checkpoint's "
        "folder puts shards together.",
    ),
    _deepspeed(
        r"the shape in current model is torch\.Size\(\[0\]\)",
        "Weights were loaded into a model that DeepSpeed's ZeRO-3 had already partitioned: its parameters are empty "
        "outside of a gather.",
        "Load by `from_pretrained` under `HfDeepSpeedConfig`, or within `deepspeed.zero.GatheredParameters`.",
    ),
    ErrorText(
        r"(?:Missing|Unexpected) key\(s\) in state_dict: \"_orig_mod\.|Unexpected key\(s\)[^:]*: \"_orig_mod\.",
        "The checkpoint has the names of a compiled model (`_orig_mod.`), and the model does not, or the other way "
        "round.",
        "Save the state of the model inside of `torch.compile`, or compile in place with `model.compile()`.",
        likely=("GPU603",),
    ),
    ErrorText(
        r"Error\(s\) in loading state_dict for|size mismatch for \S+: copying a param|"
        r"Size mismatch between saved torch\.Size|MetadataIndex\(.*mismatch sizes",
        "The checkpoint does not fit the model: names or shapes of parameters differ, or it holds the shards of "
        "another number of ranks.",
        "Build the model from the settings with which the checkpoint was written, and load it before the model is "
        "sharded or wrapped.",
        likely=("GPU603", "GPU934", "GPU935"),
    ),
    ErrorText(
        r"Weights only load failed|WeightsUnpickler error|Unsupported (?:global|class|operand)\b.*|"
        r"weights_only`? ?(?:argument|load)",
        "Since PyTorch 2.6, `torch.load` reads nothing but tensors, and this file holds other objects.",
        "For a file that you trust: `torch.load(..., weights_only=False)`, or name its classes in "
        "`torch.serialization.add_safe_globals`.",
        since="2.6",
    ),
    ErrorText(
        r"invalid load key, '(?:v|<|\\x\w\w|\W)|HeaderTooLarge|InvalidHeaderDeserialization|HeaderTooSmall",
        "The file is no checkpoint: a pointer of Git LFS in place of the file, a page of an error in place of a "
        "download, or a file that was cut off.",
        "Look at its size and its first bytes (`head -c 100`); fetch it again (`git lfs pull`).",
        likely=("GPU604",),
    ),
    ErrorText(
        r"PytorchStreamReader failed|unexpected EOF, expected \d+ more bytes|Ran out of input|"
        r"pickle data was truncated|[Ii]nvalid magic number|MetadataIncompleteBuffer|storage has wrong (?:byte )?size|"
        r"not a ZIP archive|BadZipFile|UnpicklingError|incomplete metadata, file not fully covered",
        "A file is damaged or not written to its end: saving was interrupted, the disk was full, several ranks wrote "
        "it at once, or it was read before it was finished. What ranks send each other arrives so, too, where their "
        "collectives do not belong together.",
        "Write it on one rank to another name and rename it, and let the others wait (`barrier`); take the checkpoint "
        "before this one.",
        likely=("GPU601", "GPU604"),
    ),
    ErrorText(
        r"serious vulnerability issue in `torch\.load`",
        "This version of Transformers loads files of pickle only with PyTorch 2.6 or newer.",
        "Update PyTorch, or take the model's safetensors.",
        library="transformers",
    ),
    ErrorText(
        r"doesn't match the size of optimizer's group|loaded state dict has a different number of parameter groups|"
        r"Missing optimizer state for parameter|is not in the optimizer state\. The FSDPParamInfo",
        "The state of the optimizer does not fit it: it was saved with other parameters or groups.",
        "Build the optimizer as when it was saved, after the same layers are frozen, or begin with a new one.",
    ),
    ErrorText(
        r"Missing key in checkpoint state_dict",
        "A distributed checkpoint lacks what the model asks for: it is of another model, or has other names.",
        "Compare the names of the parameters; those of a wrapper (`module.`, `_orig_mod.`) count.",
        likely=("GPU603",),
    ),
    ErrorText(
        r"Checkpoint already exists and self\.overwrite",
        "There is a checkpoint in the folder, and the writer may not overwrite it.",
        "Take a folder of its own for each step, or `FileSystemWriter(..., overwrite=True)`.",
    ),
    _deepspeed(
        r"used a DP world size of \d+ but the current world size is|"
        r"checkpoint being loaded used a (?:DP|TP|PP|DP world size)",
        "The checkpoint was written by another number of ranks, and DeepSpeed cannot divide its state anew.",
        "Load with the same number of ranks, or convert it to a universal checkpoint.",
    ),
    ErrorText(
        r"[Cc]an't find a valid checkpoint at|No valid checkpoint found in output directory|"
        r"DeepSpeed was unable to load the checkpoint|seems a bogus DeepSpeed checkpoint folder|"
        r"does not point to a valid checkpoint|Unable to find latest file at",
        "The folder holds no checkpoint of the kind that is asked for.",
        "Look at what is in it; each kind (one file, shards, a framework's) is loaded in its own way.",
    ),
    _deepspeed(
        r"Cannot get 16bit model weights because",
        "Under ZeRO-3 the weights are put together for saving only where the settings say so.",
        "Set `stage3_gather_16bit_weights_on_model_save: true`, or save shards.",
    ),
    ErrorText(
        r"Some tensors share memory|The weights trying to be saved contained shared tensors",
        "Two parameters of the model are one tensor, as tied embeddings are, and safetensors keeps each only once.",
        "`save_model` of safetensors, or `save_pretrained(..., safe_serialization=False)`.",
        library="safetensors",
    ),
    ErrorText(
        r"Cannot copy out of meta tensor|on the meta device, we need a `value`|expected device meta but got|"
        r"cannot be called on meta tensors|parameters are on the meta device|still on meta device",
        "Parameters have no data yet (device `meta`): the checkpoint lacks them, or the model is moved before it was "
        "loaded.",
        "Load all weights first, or `to_empty(device=...)` and initialise them; ranks other than 0 get them from "
        "rank 0 with `sync_module_states=True` or `broadcast_from_rank0`.",
    ),
    ErrorText(
        r"is not equal to the input argument value|checkpoint_args\.\w+ .* does not match|"
        r"could not find arguments in the checkpoint",
        "The checkpoint was written with other settings of the model than the job has.",
        "Start with the settings that the text names.",
        library="megatron",
    ),
    ErrorText(
        r"Cannot load model parameters from checkpoint",
        "The checkpoint does not fit the model that the settings describe.",
        "Name the same architecture and options as when it was written.",
        library="fairseq",
    ),
)
