"""Errors of frameworks: what they refuse of settings and of how they are called."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole

_accelerate = partial(ErrorText, library="accelerate")
_deepspeed = partial(ErrorText, library="deepspeed")
_lightning = partial(ErrorText, library="lightning")
_megatron = partial(ErrorText, library="megatron")
_transformers = partial(ErrorText, library="transformers")

_PEER = FailureRole.PEER

FRAMEWORK_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"Tried to step \d+ times\. The specified number of total steps is",
        "A learning rate schedule was made for fewer steps than it is told to make: training goes on for longer, or "
        "something steps it once for each process.",
        "Compute `total_steps` from the number of batches of one rank and of epochs, and step it in one place.",
        likely=("GPU907",),
    ),
    _transformers(
        r"Couldn't instantiate the backend tokenizer|[Yy]ou need to have sentencepiece installed",
        "A tokenizer could not be made from the files of the model: `sentencepiece` or `tiktoken`, which reads them, "
        "is not installed, or files are missing.",
        "`pip install sentencepiece tiktoken protobuf` on each node; look whether the folder has `tokenizer.json`.",
    ),
    _megatron(
        r"model\W?parallel group is not initialized",
        "A group of Megatron's is asked for that was never made, or made by another copy of the module.",
        "Call `initialize_model_parallel` first, and import Megatron by one name only.",
    ),
    _megatron(
        r"world[_ ]size \(\d+\) is not divisible by",
        "There are fewer processes than one copy of the model takes, or not a multiple of it: tensor times pipeline "
        "times context parallel size.",
        "Start that many, or lower the sizes.",
    ),
    _megatron(
        r"found (?:NaN|Inf) in local (?:grad|forward loss)",
        "The loss or a gradient of this rank is not a number, and Megatron stops before the others get it.",
        "Look at the batch of this rank; where it is only ever one node or GPU, have that examined.",
    ),
    _megatron(
        r"CUDA_DEVICE_MAX_CONNECTIONS (?:to|must be|should be)|setting the environment variable "
        r"CUDA_DEVICE_MAX_CONNECTIONS",
        "Megatron orders its kernels by having one queue to the GPU, and the variable for that is not set.",
        "`export CUDA_DEVICE_MAX_CONNECTIONS=1` for every rank.",
    ),
    _megatron(
        r"global batch size \(\d+\) is not divisible by micro batch size",
        "The global batch is not a multiple of the micro batch times the number of data-parallel ranks.",
        "Choose sizes that divide, also after the number of GPUs has changed.",
    ),
    _megatron(
        r"number of (?:attention )?heads \(?\d+\)? must be divisible by|(?:must|should) be divisible by "
        r"(?:the )?(?:tensor|tp|pipeline|model|sequence|context)[ _-]?(?:model[ _-]?)?parallel|"
        r"is not divisible by tensor.?(?:model.?)?parallel|must divide distributed world size",
        "The model cannot be divided by this number of ranks.",
        "Choose a size of the parallelism that divides the heads, the layers or the vocabulary, as the text says.",
    ),
    _deepspeed(
        r"Check batch related parameters\. train_batch_size is not equal to",
        "In the settings of DeepSpeed, `train_batch_size` is not the batch of a GPU times the accumulation times the "
        "number of GPUs.",
        "Give two of the three, or `auto`.",
        likely=("GPU911", "GPU430"),
    ),
    _transformers(
        r"correct the following DeepSpeed config values that mismatch TrainingArg",
        "The settings of DeepSpeed and the arguments of the Trainer say different things.",
        "Write `auto` in the settings of DeepSpeed for what the Trainer knows.",
        code="GPU430",
    ),
    _deepspeed(
        r"Either train_batch_size or train_micro_batch_size_per_gpu needs to be provided|"
        r"Expected a string path to an existing deepspeed config|DeepSpeedConfigError|"
        r"Duplicate keys in DeepSpeed config|bfloat16 and fp16 modes cannot be simultaneously enabled|"
        r"DeepSpeedConfig: |zero stage \d+ requires an optimizer|You are using an untested ZeRO Optimizer|"
        r"pydantic\S*ValidationError: \d+ validation errors? for DeepSpeed\w*Config",
        "DeepSpeed refuses its settings; the text says what.",
        "Correct the file or dictionary that is passed as DeepSpeed's configuration.",
    ),
    _deepspeed(
        r"no_sync context manager is incompatible with gradient partitioning",
        "`no_sync` was used with ZeRO-2 or ZeRO-3, which give each gradient to its owner in every backward.",
        "Remove `no_sync`: the engine accumulates by itself.",
        code="GPU936",
    ),
    _deepspeed(
        r"Loss scaling is required for this configuration|Direct calls to tensor\.backward\(\) are not supported|"
        r"requires you to call `fabric\.backward\(loss\)`",
        "`loss.backward()` was called where the framework has to scale or divide the gradients.",
        "Call the framework's own: `engine.backward(loss)`, `accelerator.backward(loss)`, `fabric.backward(loss)`.",
        likely=("GPU906",),
    ),
    ErrorText(
        r"TrainingFailedError: The Ray Train run failed",
        "Ray Train tells that a worker has failed, and not why.",
        "The error of the worker stands further up, or in `error.txt` of the trial's folder (`~/ray_results`).",
        role=FailureRole.PEER,
        library="ray",
    ),
    _deepspeed(
        r"disagreement between rank\d+ and rank\d+",
        "DeepSpeed's ZeRO-3 gathers parameters in the order of the modules, and the ranks went through them in "
        "different orders: a branch on data or the rank, or experts that only some ranks use.",
        "Let every rank call the same modules in the same order.",
        likely=("GPU512",),
    ),
    _deepspeed(
        r"'active_sub_modules': (?:\{|set\()|still have inflight params",
        "DeepSpeed's ZeRO-3 met a parameter that was not there when it was used, or still in use when it was released: "
        "it is used outside of the forward of its module, or by two modules.",
        "Gather it (`deepspeed.zero.GatheredParameters`) where it is used otherwise.",
    ),
    ErrorText(
        r"Installed CUDA version \S+ does not match the version torch was compiled with|"
        r"The detected CUDA version \(?\S+\)? mismatches the version|CUDAMismatchException",
        "An extension is to be compiled with another CUDA than PyTorch was built with.",
        "Install the toolkit of PyTorch's version (`torch.version.cuda`), and let `CUDA_HOME` name it.",
        library="cuda",
    ),
    ErrorText(
        r"CUDA_HOME (?:environment variable is not set|does not exist)|MissingCUDAException|"
        r"No such file or directory: '\S*nvcc'|nvcc: (?:not found|command not found)|"
        r"(?:[Ff]ailed to find|Cannot find|cannot find) (?:nvcc|CUDA_HOME)",
        "An extension is to be compiled, and there is no CUDA toolkit on this node.",
        "Install the toolkit, set `CUDA_HOME`, or take a wheel that is already compiled.",
        library="cuda",
    ),
    ErrorText(
        r"Error building extension|Unable to JIT load the \S+ op|[Nn]inja is required to load C\+\+ extensions|"
        r"ninja: build stopped|Command '\['ninja', '-v'\]' returned non-zero|"
        r"cpp_extension\.py.*RuntimeError: Error compiling objects|object has no attribute 'ds_opt_adam'",
        "Compiling an extension for the GPU failed on this node.",
        "The first `error:` of the compiler says why; often `ninja`, a C++ compiler or the CUDA toolkit is missing, "
        "or several ranks compile into one folder (`TORCH_EXTENSIONS_DIR`).",
        library="cuda",
    ),
    _deepspeed(
        r"MoE not supported with Stage 3|ZeRO-2 and ZeRO-3 are incompatible with pipeline|"
        r"Amp and ZeRO are not currently compatible|(?:1bit-Adam|0/1 Adam|1bit-Lamb) is not compatible with ZeRO|"
        r"Only train_batch\(\) is accessible in pipeline mode|NVMe offload is not supported for",
        "Two things were chosen that DeepSpeed cannot do together; the text names them.",
        "Choose another stage or optimizer.",
    ),
    _deepspeed(
        r"No slot '\d+' specified on host|launcher '\S+' not installed|pdsh: (?:command )?not found|"
        r"Unable to proceed on multi-node|ssh exited with exit code 255|Host key verification failed|"
        r"Permission denied \(publickey",
        "The launcher cannot start processes on the other nodes.",
        "Log in from the first node to each other (`ssh NODE hostname`) without a password; compare the host file.",
    ),
    _accelerate(
        r"You can't train a model that has been loaded with `?device_map='auto'`?|"
        r"loaded in 8-bit or 4-bit precision|contains `DTensor` parameters, which is incompatible with DDP|"
        r"can't move a model that has some modules offloaded",
        "The model was loaded over several devices (`device_map`), and each process needs the whole of it on its GPU.",
        "Load without `device_map`, or with `device_map={'': local_rank}`.",
        code="GPU909",
    ),
    _accelerate(
        r"doesn't have any device set",
        "The `device_map` with which the model is loaded leaves out a parameter.",
        "Name every module in it, or load the whole model on the rank's GPU: `device_map={'': local_rank}`.",
    ),
    _transformers(
        r"`?model_kwargs`? are not used by the model",
        "`generate` was given an argument that this model does not take; the text names it.",
        "Do not pass it: remove it from the batch before the call.",
    ),
    _transformers(
        r"cannot perform fine-tuning on purely quantized models",
        "The weights are quantized, and nothing was added to them that can be trained.",
        "Add adapters (`get_peft_model`) before the Trainer is made.",
    ),
    _accelerate(
        r"a model and optimizer must be passed together to `Accelerator\.prepare|Only one model is supported when "
        r"using FSDP2|can't use same `?Accelerator\(\)`? instance with multiple models|"
        r"model and the optimizer parameters are not on the same device|"
        r"requires you to pass at least one of training or evaluation dataloaders",
        "`accelerator.prepare` was not given what belongs together; the text says what.",
        "Pass model, optimizer and loaders in one call, and one model to each Accelerator.",
        likely=("GPU932", "GPU905"),
    ),
    _accelerate(
        r"You need to use at least 2 processes to use `--multi_gpu`|Less than two GPU ids were configured|"
        r"manually pass in `--num_processes`|config file at \S+ had unknown keys|"
        r"passed configuration file `\S+` does not exist|Specified distributed type \S+ but only using 1 GPU",
        "`accelerate launch` refuses its settings: they do not fit this machine or this version.",
        "Run `accelerate config` again on this machine, or pass `--num_processes` and `--gpu_ids`.",
    ),
    ErrorText(
        r"`?Accelerate`?d? should only be initialized inside your training function|"
        r"CUDA has been initialized before the `?notebook_launcher|"
        r"Lightning can't create new processes if CUDA is already initialized|"
        r"is not compatible with an interactive environment",
        "A notebook touched the GPU, or made the Accelerator, before processes were forked from it.",
        "Restart it, and touch nothing of CUDA outside of the function that is launched.",
        likely=("GPU406",),
    ),
    _accelerate(
        r"(?:AcceleratorState|PartialState|Accelerator\w*)\W.* has no attribute '(?:distributed_type|_\w+|device)'|"
        r"AcceleratorState has already been initialized|initialized your accelerate state",
        "Accelerate's state was used before an Accelerator was made, or was reset, or set up twice in different ways.",
        "Make one Accelerator, first of all, in every process.",
    ),
    _accelerate(
        r"Cannot apply desired operation due to shape mismatches|DistributedOperationException",
        "Accelerate has compared what the ranks pass to a collective, and the shapes differ.",
        "Pad to one shape first (`accelerator.pad_across_processes`), or give each rank batches of one size.",
    ),
    _lightning(
        r"You set `?--ntasks=|You set `?devices=\d+`? in Lightning, but|You set `?num_nodes=\d+`? in Lightning, but|"
        r"but the product \(\d+ \* \d+\) does not match the world size",
        "What SLURM or torchrun starts and what the Trainer expects (`devices`, `num_nodes`) differ.",
        "`--ntasks-per-node` = `devices`, `--nodes` = `num_nodes`.",
        code="GPU427",
    ),
    _lightning(
        r"You requested (?:gpu|GPU|to find)[\s\S]*[Bb]ut (?:your|this) machine only has|"
        r"You requested to find \d+ devices but there are no visible|GPUs requested but none are available|"
        r"No supported gpu backend found|accelerator is not available",
        "More GPUs are asked for than the process sees.",
        "Look at `CUDA_VISIBLE_DEVICES`, at what the scheduler gives, and at `torch.version.cuda`.",
        likely=("GPU428",),
    ),
    _lightning(
        r"Lightning attempted to launch new distributed processes with `?local_rank > 0`?",
        "A process that already is a rank tries to start ranks: variables such as LOCAL_RANK are left from another "
        "launcher, or the program is started by two.",
        "Unset `LOCAL_RANK`, or start by one launcher only.",
        likely=("GPU426",),
    ),
    ErrorText(
        r"Using fsdp only works in distributed training|`?--?fsdp`? .*(?:requires|only works)|"
        r"To use Fabric with more than one device, you must call `?\.launch\(\)",
        "The program was started as one process, and was told to train with several.",
        "Start it with `torchrun --nproc-per-node=N`, or call `fabric.launch()`.",
        likely=("GPU422",),
    ),
    _lightning(
        r"calling the method `?\S+`? from outside the model",
        "A method of the wrapped model was called, which bypasses the wrapper.",
        '`model.mark_forward_method("...")`, or call it from `forward`.',
        code="GPU102",
    ),
    _lightning(
        r"could not find the monitored key|[Ee]arly stopping conditioned on metric|conditioned on metric \S+ which is "
        r"not available|must include a monitor when",
        "A metric is watched that was never logged under this name.",
        "Log it (`self.log`) in the hook that runs before it is asked for, under exactly this name.",
    ),
    _lightning(
        r"Skipping the `training_step` by returning None in distributed training|"
        r"The closure hasn't been executed|training_step` returns a dict, the 'loss' key|"
        r"Training with multiple optimizers is only supported with manual optimization|"
        r"`?(?:train|val|test|predict)_dataloader`? must be implemented|No `\w+\(\)` method defined",
        "The LightningModule does not do what the Trainer of this version expects; the text says what.",
        "Follow the text; after an update of Lightning, look into its guide of migration.",
    ),
    ErrorText(
        r"FP16 Mixed precision training with AMP|[Yy]our setup doesn't support bf16|"
        r"Current CUDA Device does not support bfloat16|bf16 mixed precision requires|"
        r"Bfloat16 is only supported on GPUs with compute capability|FP8 .*(?:requires|only supported)|"
        r"Type (?:bf16|fp16) is not supported on your device|fp16 mixed precision requires a",
        "This GPU, or the CPU in its place, does not compute in the precision that was chosen.",
        "BF16 needs Ampere or newer: take FP16 on older GPUs. Where the GPU is new, PyTorch may not see it.",
    ),
    ErrorText(
        r"FlashAttention only supports? (?:Ampere|fp16)|FlashAttention2? (?:has been toggled on, but|only support)|"
        r"the package flash_attn seems to be not installed|Flash Attention \d is not available|"
        r"No operator found for `memory_efficient_attention",
        "The fast attention that was chosen does not work here: it is not installed, or does not take this GPU or "
        "dtype.",
        "Load with `attn_implementation='sdpa'`, or in BF16 on an Ampere GPU or newer.",
        library="flash_attn",
    ),
    _transformers(
        r"The model did not return a loss from the inputs|[Nn]o columns in the dataset match the model's forward",
        "The Trainer passes the model only columns that its `forward` names, and the labels are not among them.",
        "Name the column `labels`, or set `remove_unused_columns=False`.",
    ),
    _transformers(
        r"Unable to create tensor, you should probably activate (?:truncation|padding)|"
        r"Asking to pad but the tokenizer does not have a padding token|"
        r"You should supply an encoding or a list of encodings",
        "The tokenizer cannot make one batch of these samples: they have different lengths, or no token to pad with.",
        "Set `tokenizer.pad_token`, and take a collator that pads.",
    ),
    _transformers(
        r"max_steps has to be specified|"
        r"--load_best_model_at_end requires|The `?early_?stopping`? .* requires|requires an evaluation dataset|"
        r"requires an eval_dataset",
        "The arguments of the Trainer do not fit each other; the text says which.",
        "Follow the text.",
    ),
    _transformers(
        r"does not recognize this architecture|Unrecognized (?:configuration class|model in)|"
        r"Tokenizer class \S+ does not exist|requires? (?:that )?you (?:to )?execute the \w+ file in that repo|"
        r"(?:set|pass|option) `?trust_remote_code=True`?|'KeyError: '\w+'.*CONFIG_MAPPING",
        "The installed Transformers does not know this kind of model.",
        "Update Transformers to the version that the model asks for; models with code of their own need "
        "`trust_remote_code=True`.",
    ),
    ErrorText(
        r"Target modules? .* not found in the base model|Target module \S+ is not supported",
        "The adapters are to be put into layers that this model does not have.",
        "Print the names of the model's layers, and name some of them in `target_modules`.",
        library="peft",
    ),
    ErrorText(
        r"MMCV==\S+ is used but incompatible|No module named 'mmcv\._ext'|MM\w+==\S+ is used but incompatible",
        "The installed MMCV and this repository are of versions that do not fit, or MMCV was built without its "
        "operators.",
        "Install the version that the text asks for, built for this PyTorch and CUDA (`mim install`).",
        library="mmcv",
    ),
    ErrorText(
        r"KeyError: ['\"]?\W?\w+\W? is (?:not in|already registered in) (?:the )?|"
        r"(?:Dataset|Object named) '?\w+'? (?:is|was) (?:already|not) registered|is not in the \S+ registry",
        "A name in the settings belongs to nothing that the program has registered (or to two things).",
        "Import the module that registers it, and compare the name and the version of the library.",
        library="registry",
    ),
    ErrorText(
        r"omegaconf\.errors\.|hydra\.errors\.|Could not override '\S+'|Key '\S+' is not in struct|"
        r"Missing mandatory value|ConfigAttributeError|ConfigKeyError|MissingConfigException",
        "The settings lack a value or have one that the program does not know.",
        "Compare the option with the files of settings; `+key=value` adds one, `++key=value` sets it either way.",
        library="hydra",
    ),
    ErrorText(
        r"yaml\.(?:scanner|parser|constructor|composer)\.\w+|toml\.decoder\.|TOMLDecodeError",
        "A file of settings is not valid; the text says in which line.",
        library="yaml",
    ),
    ErrorText(
        r"Free memory on device.*is less than desired GPU memory utilization|No available memory for the cache blocks|"
        r"larger than the maximum number of tokens that can be stored in KV cache",
        "vLLM found less free memory on the GPU than it is to take: something else is on it, training mostly.",
        "Lower `gpu_memory_utilization` or the longest sequence, or give it GPUs of its own.",
        library="vllm",
    ),
    ErrorText(
        r"Got fatal signal from worker processes|"
        r"Engine core initialization failed|WorkerProc initialization failed|EngineDeadError|EngineCore encountered|"
        r"AsyncEngineDeadError|Background loop has errored",
        "A process of the inference engine had ended before; its own error stands above.",
        role=_PEER,
        library="vllm",
    ),
)
