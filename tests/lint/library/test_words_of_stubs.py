"""What the words of a stub mean, for functions and for methods of objects whose class a stub knows."""

import pytest

from gpudoctor.lint.domain.value import Const, singleton
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.host_waits import HostSync
from gpudoctor.lint.events.knowledge import Prepare, UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import ContextMade, CudaStarted
from gpudoctor.lint.events.process import SeedSet
from gpudoctor.lint.events.training_step import Backward, GradientSync
from gpudoctor.lint.flow.condition import Divergence


def test_the_path_stands_where_the_signature_says(paper):
    found = paper(
        """
        import imageio.v2, json, os, cv2, numpy, torch
        import torch.distributed.checkpoint as dcp
        from accelerate import Accelerator
        from lightning.fabric import Fabric
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
        torch.save(f="a", obj={})
        cv2.imwrite("b", image)
        numpy.savetxt(fname="c", X=rows)
        imageio.v2.mimsave("film", frames)
        dcp.save({}, checkpoint_id="d")
        dcp.state_dict_saver.save_state_dict({}, writer)
        dcp_to_torch_save("parts", "e")
        Accelerator().save({}, "f")
        Fabric().save("g", {})
        json.dump({}, open("h", "w"))
        json.dump({}, open("i", "a"))
        json.dump({}, file)
        """
    )
    saves = [event for event in found.events(Save) if event.call != "open"]
    assert [repr(event.path) for event in saves] == [
        *("'a'", "'b'", "'c'", "'film'", "'d'", "None", "'e'", "'f'", "'g'", "'h'"),
    ]
    assert [event.call for event in saves if event.collective] == [
        *("torch.distributed.checkpoint.save", "torch.distributed.checkpoint.save_state_dict", ".save", ".save"),
    ]
    assert ["checkpoint" if event.checkpoint else "whole" if event.whole else "" for event in saves] == [
        *(
            "checkpoint",
            "whole",
            "whole",
            "whole",
            "checkpoint",
            "checkpoint",
            "checkpoint",
            "checkpoint",
            "checkpoint",
            "whole",
        ),
    ]
    assert [event.on_cpu for event in saves] == [False] * 6 + [True] + [False] * 3


def test_what_seeds(paper):
    found = paper(
        """
        import random, numpy, torch
        import torch.distributed as dist
        random.seed(dist.get_rank())
        numpy.random.seed(seed=dist.get_rank())
        torch.random.manual_seed(3)
        torch.cuda.manual_seed_all(4 + dist.get_rank())
        torch.seed()
        random.shuffle([])
        """
    )
    seeds = list(found.events(SeedSet))
    assert [event.call.partition(".")[0] for event in seeds] == ["random", "numpy", "torch", "torch", "torch"]
    rank, same, own = Divergence.RANK, Divergence.NONE, Divergence.LOCAL
    assert [event.seed.surely for event in seeds] == [rank, rank, same, rank, own]


@pytest.mark.parametrize(
    ("made", "called", "context"),
    [
        ("accelerate.Accelerator", "accumulate(model)", "accumulate"),
        ("accelerate.PartialState", "local_main_process_first()", "local_main_process_first"),
        ("lightning.Fabric", "autocast()", "autocast"),
    ],
)
def test_contexts_of_managed_objects(paper, made: str, called: str, context: str):
    found = paper(
        f"""
        import {made.rpartition(".")[0]}, torch
        model = torch.nn.Linear(1, 1)
        with {made}().{called}:
            torch.save({{}}, "a")
        """
    )
    (save,) = found.events(Save)
    assert save.context.contexts == ((context,) if context else ())
    assert bool(list(found.events(GradientSync))) == called.endswith("(model)")


def test_a_class_does_what_its_own_stub_says(paper):
    """Each framework has another `save`, and a `Trainer` is no `Accelerator`."""
    found = paper(
        """
        import lightning, transformers
        transformers.Trainer(model).save("a")
        transformers.Trainer(model).save_model("b")
        lightning.Trainer().save_checkpoint("c")
        lightning.pytorch.Trainer.from_argparse_args(args).save_checkpoint("d")
        """
    )
    assert [(event.call, repr(event.path), event.collective) for event in found.events(Save)] == [
        (".save_model", "'b'", True),
        (".save_checkpoint", "'c'", True),
        (".save_checkpoint", "'d'", False),
    ]


def test_what_a_stub_says_a_value_is(paper):
    paper(
        """
        import os, platform, submitit, torch
        import torch.distributed as dist
        from torch.distributed import launcher
        job = submitit.JobEnvironment()
        reveal(platform.system())  #: 'Linux'
        reveal(os.path.sep)  #: '/'
        reveal(torch.backends.mps.is_available())  #: False
        reveal(dist.is_nccl_available())  #: True
        reveal(dist.get_rank())  #: global rank
        reveal(job.global_rank)  #: global rank
        reveal(job.num_nodes)  #: node count
        reveal(submitit.helpers.TorchDistributedEnvironment().export().local_rank)  #: local rank
        reveal(launcher.api.elastic_launch(config, 7))  #: 7
        """,
        launch="spawn",
    )


def test_one_process_is_rank_0(paper):
    paper(
        """
        import torch.distributed as dist
        reveal(dist.get_rank())  #: 0
        reveal(dist.get_node_local_rank())  #: 0
        reveal(dist.get_world_size())  #: 1
        """,
        launch="single",
    )


def test_an_engine_is_what_its_stub_says(paper):
    found = paper(
        """
        import deepspeed, torch
        net = torch.nn.Linear(2, 2)
        engine, optimizer, loader, scheduler = deepspeed.initialize(model=net, training_data=net.data, config={})
        reveal(optimizer)  #: Optimizer
        reveal(loader)  #: Loader
        reveal(scheduler)  #: Scheduler
        reveal(deepspeed.initialize(model=net, config={})[2])  #: None
        reveal(engine.global_rank)  #: global rank
        reveal(engine.local_rank)  #: local rank
        reveal(engine.world_size)  #: world size
        reveal(engine.device)  #: cuda:local rank
        reveal(engine.module is net)  #: True
        reveal(engine.step())  #: None
        loss = engine(torch.zeros(2)).sum()
        reveal(engine.backward(loss))  #: Tensor
        with engine.no_sync():
            engine.backward(loss)
        if engine.is_gradient_accumulation_boundary():
            engine.save_checkpoint("a")
        engine.save_16bit_model(save_dir="b")
        """
    )
    assert [event.managed for event in found.events(Backward)] == ["deepspeed"] * 2
    assert len(list(found.events(GradientSync))) == 1
    saves = list(found.events(Save))
    assert [(event.call, repr(event.path), event.collective, event.checkpoint) for event in saves] == [
        (".save_checkpoint", "'a'", True, True),
        (".save_16bit_model", "'b'", True, True),
    ]
    # What the engine says is the same on all ranks.
    assert not saves[0].context.condition.divergence


def test_an_engine_is_one_around_whatever_model(paper):
    found = paper(
        """
        import argparse, company, deepspeed, torch
        parser = argparse.ArgumentParser()
        parser.add_argument("--wide", action="store_true")
        parser.add_argument("--compress", action="store_true")
        args = parser.parse_args()
        model = torch.nn.Linear(2, 2)
        if args.wide:
            model = torch.nn.Linear(2, 9)
        if args.compress:
            model = company.compressed(model)
        engine, optimizer, _, _ = deepspeed.initialize(model=model, config={})
        reveal(engine.global_rank)  #: global rank
        engine.backward(engine(torch.zeros(2)).sum())
        other, *_ = deepspeed.initialize(model=company.load("x"), config={})
        out = other(**company.batch())
        other.backward(out.loss)
        third, *_ = deepspeed.initialize(**company.settings())
        third.backward(third(1))
        """
    )
    assert {(event.managed, event.location.line) for event in found.events(Backward)} == {
        ("deepspeed", 14),
        ("deepspeed", 17),
        ("deepspeed", 19),
    }


def test_each_way_to_propagate_back(paper):
    found = paper(
        """
        import torch
        from accelerate import Accelerator
        from lightning.fabric import Fabric
        loss = torch.nn.Linear(2, 1)(torch.zeros(2)).sum()
        reveal(Accelerator().backward(loss))  #: None
        Fabric().backward(loss, model=None)
        """
    )
    assert [(event.managed, event.complete) for event in found.events(Backward)] == [
        ("accelerate", True),
        ("lightning", True),
    ]


def test_collectives_under_another_name(paper):
    found = paper(
        """
        import deepspeed
        from deepspeed import comm as dist
        deepspeed.init_distributed()
        reveal(dist.get_rank())  #: global rank
        dist.barrier()
        """
    )
    assert [event.call for event in found.events(Collective)] == ["barrier"]


def test_what_the_gpu_is_asked(paper):
    found = paper(
        """
        import torch
        reveal(torch.cuda.device_count())  #: device count
        torch.cuda.get_device_name(0)
        torch.cuda.mem_get_info()
        torch.cuda.synchronize()
        torch.accelerator.synchronize()
        torch.cuda.empty_cache()
        """
    )
    assert [event.call for event in found.events(CudaStarted)] == ["torch.cuda.get_device_name"]
    assert [event.call for event in found.events(ContextMade)] == [
        "torch.cuda.get_device_name",
        "torch.cuda.mem_get_info",
    ]
    assert [event.call for event in found.events(HostSync)] == [
        *("torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.cuda.empty_cache"),
    ]


def test_each_framework_prepares_by_its_own_methods(paper):
    paper(
        """
        import torch
        from accelerate import Accelerator
        from accelerate.utils import extract_model_from_parallel
        from lightning.fabric import Fabric
        net = torch.nn.Linear(2, 2)
        model = Accelerator().prepare(net)
        reveal(model is net)  #: False
        reveal(Accelerator().unwrap_model(model) is net)  #: True
        reveal(extract_model_from_parallel(model) is net)  #: True
        reveal(Fabric().setup(net) is net)  #: False
        reveal(Accelerator().setup(net))  #: unknown
        """
    )


@pytest.mark.parametrize(
    ("made", "one_by_one"),
    [
        ("accelerate.Accelerator()", True),
        ("lightning.Fabric()", True),
        ("lightning.fabric.Fabric()", True),
        ("lightning.Trainer()", False),
        ("transformers.Trainer(model)", False),
        ("composer.Trainer(model)", False),
        ("deepspeed.initialize(model=model)", False),
    ],
)
def test_who_is_handed_objects_one_by_one(paper, made: str, one_by_one: bool):
    found = paper(
        f"""
        import accelerate, composer, deepspeed, lightning, torch, transformers
        model = torch.nn.Linear(1, 1)
        {made}
        """
    )
    assert {event.one_by_one for event in found.events(UseManaged)} == {one_by_one}


def test_what_a_framework_leaves_to_the_program(paper):
    found = paper(
        """
        import accelerate, lightning
        accelerate.Accelerator()
        lightning.Trainer()
        """
    )
    assert found.program.leaving("loop") == {"accelerate", "lightning"}
    assert found.program.leaving("folders") == {"accelerate"}
    assert found.program.leaving("seeding") == frozenset()
    assert paper("import accelerate").program.leaving("loop") == frozenset()


def test_a_trainer_prepares_what_the_program_has_not_handed_over(paper):
    found = paper(
        """
        import composer, lightning, torch
        fabric = lightning.Fabric()
        fabric.setup(torch.nn.Linear(1, 1))
        class Plain(composer.ComposerModel):
            def forward(self, batch): return batch
            def loss(self, outputs, batch): return outputs.sum()
        composer.Trainer(model=Plain(), train_dataloader=[1], max_duration="1ep").fit()
        """
    )
    assert {(event.managed.framework, event.by_itself) for event in found.events(Prepare)} == {
        ("lightning", False),
        ("composer", True),
    }


@pytest.mark.parametrize(
    ("said", "uncut"),
    [
        ("", False),
        (", sharding_strategy=None", False),
        (", sharding_strategy=fsdp.ShardingStrategy.FULL_SHARD", False),
        (", sharding_strategy=fsdp.ShardingStrategy.NO_SHARD", True),
        (", sharding_strategy=args.strategy", True),
    ],
)
def test_an_fsdp_that_may_cut_nothing(paper, said: str, uncut: bool):
    found = paper(
        f"""
        import argparse, torch, torch.distributed.fsdp as fsdp
        args = argparse.ArgumentParser().parse_args()
        fsdp.FullyShardedDataParallel(torch.nn.Linear(1, 1){said})
        """
    )
    assert [event.uncut for event in found.events(Wrap)] == [uncut]


@pytest.mark.parametrize(
    ("settings", "otherwise", "steps"),
    [
        ("", frozenset(), None),
        ("True, False, 'fp16', 4", frozenset(), 4),
        ("gradient_accumulation_steps=2", frozenset(), 2),
        ("gradient_accumulation_plugin=plugin", {"accumulating"}, None),
        ("True, False, None, 4, False, None, plugin", {"accumulating", "spreading"}, 4),
        ("fsdp_plugin=plugin", {"spreading"}, None),
    ],
)
def test_settings_have_the_names_that_a_stub_gives_them(paper, settings: str, otherwise: set[str], steps: int | None):
    found = paper(
        f"""
        import accelerate
        from mine import plugin
        accelerate.Accelerator({settings})
        """
    ).event(UseManaged)
    assert found.otherwise == otherwise
    assert found.setting("gradient_accumulation_steps") == (steps and singleton(Const(steps)))
