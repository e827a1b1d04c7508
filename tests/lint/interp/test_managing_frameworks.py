"""Frameworks in charge: they are recognised, and the rules about what is absent stay silent."""

from pathlib import Path

import pytest

from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.events.model import AttributeMissed
from tests.support.linting import lint

LIGHTNING = """
    import torch, torch.nn as nn, lightning as L
    from torch.utils.data import DataLoader
    class Lit(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(2, 2)
        def training_step(self, batch, index):
            x, y = batch
            return nn.functional.mse_loss(self.net(x), y)
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)
    trainer = L.Trainer(devices=4, strategy="ddp", max_epochs=3)
    trainer.fit(Lit(), DataLoader(torch.utils.data.TensorDataset(torch.zeros(8, 2), torch.zeros(8, 2)), shuffle=True))
    """

LOOP = """
    for epoch in range(3):{told}
        for x, y in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            {backward}
            optimizer.step()
    """

START = """
    import torch, torch.nn as nn
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.zeros(8, 2), torch.zeros(8, 2))
    model = nn.Linear(2, 2).cuda()
    loader = DataLoader(data, shuffle=True, batch_size=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    """


def loop(setup: str, backward: str = "loss.backward()", start: str = START, told: str = "") -> str:
    """A training loop whose framework is set up by these lines. What no framework does for the program, it does itself:
    a sampler is `told` the epoch."""
    return start + setup + LOOP.format(backward=backward, told=told and f"\n        {told}")


ENGINE = """
    import deepspeed
    engine, optimizer, {loader}, _ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config="ds.json", training_data=data)
    model = engine
    """


PROGRAMS = {
    "lightning": LIGHTNING,
    "lightning, by its old name": LIGHTNING.replace("lightning as L", "pytorch_lightning as L"),
    "lightning Fabric": loop(
        """
    from lightning.fabric import Fabric
    fabric = Fabric(devices=4)
    fabric.launch()
    model, optimizer = fabric.setup(model, optimizer)
    loader = fabric.setup_dataloaders(loader)
    """,
        "fabric.backward(loss)",
    ),
    "accelerate": loop(
        """
    from accelerate import Accelerator
    accelerator = Accelerator()
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    """,
        "accelerator.backward(loss)",
    ),
    "transformers": """
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from data import train_set
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    trainer = Trainer(model=model, args=TrainingArguments("out"), train_dataset=train_set)
    trainer.train()
    trainer.save_model("out")
    """,
    "deepspeed": loop(
        ENGINE.format(loader="loader"), "engine.backward(loss)", told="loader.data_sampler.set_epoch(epoch)"
    ),
    "ray": """
    import torch, torch.nn as nn
    from ray.train import ScalingConfig
    from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
    from torch.utils.data import DataLoader, TensorDataset
    def train_loop(config):
        model = prepare_model(nn.Linear(2, 2))
        data = TensorDataset(torch.zeros(8, 2), torch.zeros(8, 2))
        loader = prepare_data_loader(DataLoader(data, shuffle=True))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            loader.sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
    trainer = TorchTrainer(train_loop, scaling_config=ScalingConfig(num_workers=4, use_gpu=True))
    trainer.fit()
    """,
    "horovod": loop(
        """
    import horovod.torch as hvd
    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    sampler = torch.utils.data.DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(data, sampler=sampler, batch_size=4)
    """,
        told="sampler.set_epoch(epoch)",
    ),
    "smdistributed": loop(
        """
    import smdistributed.modelparallel.torch as smp
    smp.init()
    torch.cuda.set_device(smp.local_rank())
    model = smp.DistributedModel(model)
    optimizer = smp.DistributedOptimizer(optimizer)
    """
    ),
    "ignite": loop(
        """
    import ignite.distributed as idist
    model = idist.auto_model(model)
    optimizer = idist.auto_optim(optimizer)
    loader = idist.auto_dataloader(data, batch_size=4, shuffle=True)
    """,
        told="loader.sampler.set_epoch(epoch)",
    ),
    "composer": """
    import torch, torch.nn as nn
    from composer import Trainer
    from composer.models import ComposerClassifier
    from torch.utils.data import DataLoader, TensorDataset
    data = TensorDataset(torch.zeros(8, 2), torch.zeros(8, 2))
    trainer = Trainer(
        model=ComposerClassifier(nn.Linear(2, 2)), train_dataloader=DataLoader(data, shuffle=True), max_duration="3ep"
    )
    trainer.fit()
    """,
    "mmengine": """
    from mmengine.runner import Runner
    from mmengine.config import Config
    runner = Runner.from_cfg(Config.fromfile("config.py"))
    runner.train()
    """,
    "detectron2": """
    from detectron2.config import get_cfg
    from detectron2.engine import DefaultTrainer, default_setup, launch
    def main(args):
        cfg = get_cfg()
        trainer = DefaultTrainer(cfg)
        trainer.resume_or_load(resume=False)
        return trainer.train()
    if __name__ == "__main__":
        launch(main, 4, num_machines=1, args=(None,))
    """,
    "torchrec": loop(
        """
    from torchrec.distributed import DistributedModelParallel
    model = DistributedModelParallel(module=model)
    """
    ),
    "fairscale": loop(
        """
    import torch.distributed as dist
    from fairscale.nn.data_parallel import ShardedDataParallel
    from fairscale.optim.oss import OSS
    dist.init_process_group("nccl")
    optimizer = OSS(params=model.parameters(), optim=torch.optim.SGD, lr=0.1)
    model = ShardedDataParallel(model, optimizer)
    """
    ),
    "colossalai": loop(
        """
    import colossalai
    from colossalai.booster import Booster
    from colossalai.booster.plugin import TorchDDPPlugin
    colossalai.launch_from_torch()
    booster = Booster(plugin=TorchDDPPlugin())
    model, optimizer, _, loader, _ = booster.boost(model, optimizer, dataloader=loader)
    """,
        "booster.backward(loss, optimizer)",
    ),
}

ABSENT = ("GPU101", "GPU204", "GPU301", "GPU302", "GPU401")
"""Model not wrapped, device not set, no sampler, no set_epoch, no process group."""


@pytest.mark.parametrize(("name", "source"), PROGRAMS.items(), ids=PROGRAMS)
def test_the_framework_is_recognised(paper, name: str, source: str):
    found = paper(source, launch="auto")
    assert found.programs
    for program in found.programs:
        assert name.partition(" ")[0].partition(",")[0] in program.managed_by


PARTS = {
    "detectron2": """
    from detectron2.data import DatasetCatalog
    from detectron2.modeling import ROIHeads
    DatasetCatalog.register("own", lambda: [])
    class Heads(ROIHeads):
        def __init__(self, cfg):
            super().__init__(num_classes=3)
    model = nn.Sequential(model, Heads(None))
    """,
    "mmcv": """
    from mmcv import Config
    from mmcv.parallel import MMDistributedDataParallel
    model = MMDistributedDataParallel(model, device_ids=[0], broadcast_buffers=False)
    """,
    "fastai": """
    from fastai.data.external import URLs, untar_data
    folder = untar_data(URLs.PETS)
    """,
    "speechbrain": """
    from speechbrain.inference import EncoderClassifier
    speakers = EncoderClassifier.from_hparams("speechbrain/spkrec-ecapa-voxceleb")
    """,
}


@pytest.mark.parametrize("source", PARTS.values(), ids=PARTS)
def test_parts_of_a_framework_take_charge_of_nothing(paper, source: str):
    found = paper(loop(source), launch="auto")
    assert found.programs
    assert not any(program.managed_by for program in found.programs)


@pytest.mark.parametrize(("name", "source"), PROGRAMS.items(), ids=PROGRAMS)
def test_nothing_is_missed_where_a_framework_does_it(paper, tmp_path: Path, name: str, source: str):
    paper(source, launch="auto")
    # It shards the state of the optimizer, and leaves the GPU to the program.
    missed = ["GPU204"] if name == "fairscale" else []
    assert [seen.code for seen in lint(tmp_path / "train.py", folder=tmp_path, select=ABSENT)] == missed


def test_an_engine_deals_out_no_other_loader_than_its_own(paper, tmp_path: Path):
    paper(loop(ENGINE.format(loader="_"), "engine.backward(loss)"), launch="auto")
    assert [seen.code for seen in lint(tmp_path / "train.py", folder=tmp_path, select=ABSENT)] == ["GPU301"]


def test_what_is_absent_is_missed_where_nobody_does_it(paper, tmp_path: Path):
    plain = loop(
        """
    import os
    import torch.distributed as dist
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    """
    )
    assert not paper(plain, launch="auto").program.managed_by
    codes = {seen.code for seen in lint(tmp_path / "train.py", folder=tmp_path, select=ABSENT)}
    assert {"GPU101", "GPU301"} & codes


@pytest.mark.parametrize(
    "line",
    [
        "from accelerate.utils import set_seed\nset_seed(1)",
        "import transformers\ntransformers.logging.set_verbosity(1)",
        "from fairseq.models.roberta.model import RobertaModel\nnet = RobertaModel.from_pretrained('base')",
        "from fairseq.optim.adam import FairseqAdam\nimport torch\nFairseqAdam({}, torch.nn.Linear(2, 2).parameters())",
        "from fairseq import checkpoint_utils\nnets, _, _ = checkpoint_utils.load_model_ensemble_and_task(['base.pt'])",
        "import torch\nfrom fairscale.nn import checkpoint_wrapper\nnet = checkpoint_wrapper(torch.nn.Linear(2, 2))",
    ],
)
def test_a_helper_of_a_framework_does_not_take_charge(paper, line: str):
    assert not paper(line + "\nimport torch", launch="auto").program.managed_by


PREPARED = """
    import torch, torch.nn as nn
    from accelerate import Accelerator
    accelerator = Accelerator()
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
        def generate(self, x):
            return self.layer(x)
    model = accelerator.prepare(Net())
    model.generate(torch.zeros(2, 2).cuda())
    """


@pytest.mark.parametrize(("launch", "missed"), [("torchrun", 1), ("single", 0)])
def test_in_one_process_nothing_is_wrapped(paper, launch: str, missed: int):
    kinds = [event.wrapper.kind for event in paper(PREPARED, launch).events(AttributeMissed)]
    assert kinds.count(WrapperKind.DDP) == missed
