"""The frameworks that take charge of a training: what they leave to the program, and how they are talked about."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
    from typing import Literal

    TrainingPart = Literal[
        "batches",
        "checkpoints",
        "devices",
        "downloads",
        "epochs",
        "folders",
        "forwards",
        "groups",
        "loaders",
        "loggers",
        "loop",
        "placing",
        "processes",
        "samplers",
        "saving",
        "seeding",
        "seeds",
        "splits",
        "states",
        "wrapping",
    ]
    """A part of a training that a framework may leave to the program, as `Framework.leaves` tells."""
else:

    def dataclass(cls: type) -> type:
        """Nothing but a class: to make more of it would take longer than all the rest of this file."""
        return cls


@dataclass
class Framework:
    """A library, or several, or a part of one, that may own the wrapping, placement, sharding or saving."""

    name: str
    title: str = ""
    """What readers are told, where the name is none."""
    launcher: str = "torchrun"
    """What starts the processes of a program that leaves it to the framework."""
    first_rank: str = ""
    """How its objects are asked for the first rank."""
    local_rank: str = ""
    """How they are asked for the rank on its node."""
    first_goes_ahead: str = ""
    """What lets the first rank of a node do something before the others."""
    device: str = ""
    """How its objects are asked for the GPU of the process."""
    several: bool = False
    """It is of no use on one GPU, so whoever takes it is launched in several processes."""
    by_any_call: bool = False
    """Whatever is called of it, it is in charge from there on."""
    by_workers: bool = False
    """It trains in workers of its own: the process that asks for that joins no group."""
    leaves: tuple[TrainingPart, ...] = ()
    """What the program sees to by itself, on every rank: bringing `batches` to its GPU, which checkpoint is the best
    and when it is read again (`checkpoints`), which of the `devices` is that of the process, `downloads`, telling
    samplers the `epochs`, making `folders`, that training `forwards` go through its wrappers, asking for no process
    `groups` before one is made, workers and order of `loaders` but for the share of each rank, `loggers`, the `loop`
    that trains, where it is not a loop that is followed, `placing` on GPUs what it is not handed, starting the
    `processes`, `samplers` that split the data over the ranks, `saving` what it saves itself, `seeding` at all, which
    `seeds` ranks have, random `splits` of the data before it is handed over, saving and loading `states` of wrappers,
    and `wrapping` what it is not handed."""
    deals_out: bool = True
    """It may give each rank a share of the data of loaders that the program has made."""

    wraps_as_told: bool = False
    """The command line says what it wraps models by: DeepSpeed's engine, FSDP or DDP."""
    averages: bool = False
    """Whatever takes charge of it averages the gradients of the ranks."""
    wraps_by: str = ""
    """What wraps a model that it was not handed."""
    accumulates_by: str = ""
    """How gradients of several batches are added up, and sent to the other ranks once."""
    searches_by: str = ""
    """What has `DistributedDataParallel` look for parameters that a step leaves out."""
    wraps_behind: str = ""
    """Where the program can still change the model that its loop wraps."""
    shares_by: str = ""
    """What gives each rank its share of a loader that it has not made."""
    seeds_when_made: bool = False
    """What trains sets one seed on all ranks as soon as it is made."""
    told_devices: bool = False
    """What takes charge is told how many devices and machines it has."""
    places: bool = False
    """What it prepares is on the GPU of the process from then on, unless it is told otherwise."""
    passes_attributes: bool = False
    """Its wrapper has the attributes of what it wraps."""
    leaves_streams: bool = False
    """It gives each rank all that an `IterableDataset` yields."""

    if not TYPE_CHECKING:

        def __init__(self, *given: object, **known: object) -> None:
            # The name, the title and what starts the processes may be given in order.
            self.__dict__.update(zip(self.__annotations__, given, strict=False), **known)

    @property
    def starts_processes(self) -> bool:
        """It needs no launcher."""
        return self.launcher == self.title


def _frameworks() -> Iterator[Framework]:
    yield Framework(
        "accelerate",
        "Accelerate",
        "`accelerate launch`",
        "accelerator.is_main_process",
        "accelerator.local_process_index",
        "accelerator.local_main_process_first()",
        "accelerator.device",
        leaves=(
            *("checkpoints", "downloads", "folders", "loaders", "loggers", "loop", "processes", "saving", "seeds"),
            *("splits", "forwards", "groups", "placing", "states"),
        ),
        places=True,
        accumulates_by="Put the batch under `with accelerator.accumulate(model):`, and give the number of batches to "
        "`Accelerator(gradient_accumulation_steps=...)`.",
        searches_by="give it `kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=True)]`",
    )
    yield Framework("bagua", "Bagua")
    yield Framework("byteps", "BytePS")
    yield Framework("catalyst", "Catalyst")
    yield Framework("colossalai", "Colossal-AI", several=True)
    # Its dataloaders are those of the program: one without a sampler for several ranks is refused, or read by all.
    yield Framework(
        "composer",
        "Composer",
        leaves=("downloads", "folders", "loggers", "processes", "saving", "placing", "checkpoints", "samplers"),
        deals_out=False,
        averages=True,
        places=True,
    )
    yield Framework(
        "deepspeed",
        "DeepSpeed",
        "`deepspeed`",
        device="engine.device",
        several=True,
        leaves=(
            *("downloads", "epochs", "folders", "loaders", "loggers", "processes", "saving", "seeding", "seeds"),
            *("splits", "groups", "placing", "wrapping", "batches", "checkpoints"),
        ),
        deals_out=False,
        wraps_by="a `deepspeed.initialize` of its own",
    )
    yield Framework(
        "detectron2",
        "Detectron2",
        by_any_call=True,
        leaves=("checkpoints", "downloads", "folders", "loggers", "processes", "saving", "forwards", "groups"),
    )
    # It shards what an optimizer or a model holds; all else is written as for torch's own wrappers.
    yield Framework(
        "fairscale",
        "FairScale",
        by_any_call=True,
        leaves=(
            *("checkpoints", "devices", "downloads", "epochs", "folders", "groups", "loaders", "loggers", "loop"),
            *("placing", "processes", "saving", "seeding", "seeds", "splits", "batches"),
        ),
        deals_out=False,
    )
    yield Framework("fairseq", by_any_call=True)
    yield Framework("fastai", by_any_call=True)
    yield Framework(
        "horovod",
        "Horovod",
        "`horovodrun`",
        "hvd.rank() == 0",
        local_rank="hvd.local_rank()",
        several=True,
        leaves=(
            *("checkpoints", "devices", "downloads", "epochs", "folders", "loaders", "loggers", "loop", "saving"),
            *("seeding", "splits", "groups", "placing", "batches"),
        ),
        deals_out=False,
        averages=True,
    )
    # Its engines call what the program hands them, and its `auto_` functions are followed.
    yield Framework(
        "ignite",
        "Ignite",
        by_any_call=True,
        leaves=(
            *("checkpoints", "downloads", "epochs", "folders", "loaders", "loggers", "loop", "saving", "seeding"),
            *("seeds", "splits", "placing", "batches", "states"),
        ),
        deals_out=False,
    )
    yield from _trainers()


def _trainers() -> Iterator[Framework]:
    """Those that run the loop, and what else is known by its name alone."""
    yield Framework(
        "lightning",
        "Lightning",
        "Lightning",
        "trainer.is_global_zero",
        device="self.device",
        leaves=("downloads", "loggers", "loop", "placing", "saving", "seeds", "splits", "checkpoints", "samplers"),
        told_devices=True,
        places=True,
        passes_attributes=True,
        accumulates_by="Run all batches of a step but the last, forward and backward, under `with "
        "fabric.no_backward_sync(model):`.",
        searches_by='train with `strategy="ddp_find_unused_parameters_true"`',
        wraps_behind="in `__init__` or `setup`, before Lightning wraps the model",
        leaves_streams=True,
    )
    yield Framework("megatron", "Megatron", several=True, by_any_call=True)
    # A loader that is handed over is read as it is: settings in its place name a sampler, too.
    yield Framework(
        "mmengine",
        "the runner of OpenMMLab",
        leaves=("downloads", "folders", "loaders", "loggers", "saving", "placing", "checkpoints"),
        deals_out=False,
        told_devices=True,
        places=True,
    )
    yield Framework("pipeline", "pipeline parallelism")
    # Its workers have joined a process group, and what prepares models and loaders is followed.
    yield Framework(
        "ray",
        "Ray",
        "Ray",
        several=True,
        leaves=(
            *("checkpoints", "downloads", "epochs", "folders", "loaders", "loggers", "loop", "saving", "seeding"),
            *("seeds", "splits", "forwards", "groups", "placing", "states", "wrapping"),
        ),
        deals_out=False,
        by_workers=True,
        wraps_by="Ray's `prepare_model(...)`",
    )
    yield Framework("rpc", "the RPC framework")
    yield Framework("smdistributed", "SageMaker's smdistributed", several=True, by_any_call=True)
    yield Framework("speechbrain", "SpeechBrain", by_any_call=True)
    yield Framework("tensor parallel", "tensor parallelism")
    yield Framework("tnt", "TorchTNT")
    # Its pipelines take the batches, and do the forward, the backward and the step with them.
    yield Framework("torchrec", "TorchRec", several=True)
    yield Framework(
        "transformers",
        "the Trainer of Transformers",
        first_rank="trainer.is_world_process_zero()",
        first_goes_ahead="trainer.args.main_process_first()",
        device="trainer.args.device",
        # It shards the loaders that it makes, on paper by its own `prepare`; one of the program's own stays as it is.
        deals_out=False,
        shares_by="self.accelerator.prepare(loader)",
        averages=True,
        wraps_as_told=True,
        leaves=("downloads", "folders", "loggers", "saving", "splits", "forwards", "groups", "placing"),
        seeds_when_made=True,
    )


@cache
def framework(name: str) -> Framework:
    """What is known of the framework of this name."""
    return next((each for each in _frameworks() if each.name == name), Framework(name))
