"""The Trainer of Transformers and those that derive from it: what they call of a program, in their order."""

import pytest

from gpudoctor.lint.domain.value import FALSE, TRUE, text_of
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate, MakeLoader
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, OptimizerStep

BEGIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import HfArgumentParser, Trainer, TrainerCallback, TrainingArguments

def came(name):
    torch.save({}, name)

class Pairs(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return {"x": torch.randn(8), "labels": torch.zeros(1)}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
    def forward(self, x, labels=None):
        return {"loss": self.layer(x).mean()}

SETTINGS = TrainingArguments("out", eval_strategy="epoch")
"""


def _came(found) -> list[str]:
    """What was called, in order, each once."""
    names = (text_of(event.path.single) for event in found.events(Save) if event.path is not None)
    return list(dict.fromkeys(name for name in names if name is not None))


HOOKS = """
class Own(Trainer):
    def get_train_dataloader(self):
        came("get_train_dataloader")
        return super().get_train_dataloader()
    def create_optimizer(self):
        came("create_optimizer")
        return super().create_optimizer()
    def training_step(self, model, inputs, num_items_in_batch=None):
        came("training_step")
        return super().training_step(model, inputs, num_items_in_batch)
    def compute_loss(self, model, inputs, return_outputs=False):
        came("compute_loss")
        return super().compute_loss(model, inputs, return_outputs)
    def prediction_step(self, *args, **kwargs):
        came("prediction_step")
        return super().prediction_step(*args, **kwargs)
    def log(self, logs):
        came("log")
        super().log(logs)

class Watch(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs): came("on_train_begin")
    def on_step_begin(self, args, state, control, **kwargs): came("on_step_begin")
    def on_step_end(self, args, state, control, **kwargs): came("on_step_end")
    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        torch.save(model.state_dict(), "on_epoch_end")
    def on_evaluate(self, args, state, control, metrics=None, **kwargs): came("on_evaluate")
    def on_train_end(self, args, state, control, **kwargs): came("on_train_end")

def score(predictions):
    came("compute_metrics")
    return {"mean": predictions.predictions.mean()}

Own(Net(), SETTINGS, train_dataset=Pairs(), eval_dataset=Pairs(), compute_metrics=score, callbacks=[Watch]).train()
"""


def test_the_order_of_a_training(paper):
    assert _came(paper(BEGIN + HOOKS)) == [
        "get_train_dataloader", "create_optimizer", "on_train_begin", "on_step_begin", "training_step", "compute_loss",
        "on_step_end", "log", "on_epoch_end", "prediction_step", "compute_metrics", "on_evaluate",
        "on_train_end",
    ]  # fmt: skip


PLAIN = "trainer = Trainer(Net(), SETTINGS, train_dataset=Pairs(), eval_dataset=Pairs())\n"


def test_what_a_plain_trainer_does(paper):
    found = paper(f"{BEGIN}{PLAIN}trainer.train()\n")
    assert found.events(MakeLoader)[0].loader.managed == ""
    assert found.events(Iterate)[0].loader.managed == "transformers"
    assert found.events(MakeOptimizer)[0].optimizer.made_by == "torch.optim.AdamW"
    assert found.events(Backward)[0].loss.forwards
    assert found.events(OptimizerStep)
    assert {event.context.evaluating for event in found.events(Forward)} == {False, True}


def test_its_evaluations(paper):
    found = paper(f"{BEGIN}{PLAIN}trainer.evaluate()\n")
    assert all(event.context.evaluating for event in found.events(Forward))
    assert not found.events(Backward)
    asked = [(event.call, event.effect.gathers) for event in found.events(Collective)]
    assert asked[:2] == [("evaluate", False), ("gather_for_metrics", True)]
    assert paper(f"{BEGIN}{PLAIN}trainer.predict(Pairs())\n").events(Forward)


@pytest.mark.parametrize("settings", ["TrainingArguments('out')", "TrainingArguments('out', evaluation_strategy='no')"])
def test_what_nobody_asked_for_is_left_out(paper, settings: str):
    found = paper(f"{BEGIN}Trainer(Net(), {settings}, train_dataset=Pairs(), eval_dataset=Pairs()).train()\n")
    assert not any(event.context.evaluating for event in found.events(Forward))


def test_what_it_is_given_is_used(paper):
    own = "net = Net()\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    found = paper(f"{BEGIN}{own}Trainer(net, SETTINGS, train_dataset=Pairs(), optimizers=(optimizer, None)).train()\n")
    assert {event.optimizer.made_by for event in found.events(OptimizerStep)} == {"torch.optim.SGD"}
    init = "def make():\n    came('model_init')\n    return Net()\n"
    assert "model_init" in _came(
        paper(f"{BEGIN}{init}Trainer(args=SETTINGS, train_dataset=Pairs(), model_init=make).train()\n")
    )
    loss = "def loss_of(outputs, labels, **more):\n    came('compute_loss_func')\n    return outputs['loss']\n"
    given = "Trainer(Net(), SETTINGS, train_dataset=Pairs(), compute_loss_func=loss_of)"
    assert "compute_loss_func" in _came(paper(f"{BEGIN}{loss}{given}.train()\n"))


BATCHES = """
def collate(items):
    return {"rows": torch.stack([item["x"] for item in items]), "count": 5}

class Own(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        reveal(inputs["rows"])  #: Tensor
        return model(**inputs)["loss"]

Own(Net(), SETTINGS, collate, Pairs()).train()
"""


def test_its_batches(paper):
    paper(BEGIN + BATCHES)


def test_a_stream_is_not_shuffled(paper):
    stream = "class Stream(torch.utils.data.IterableDataset):\n    def __iter__(self):\n        yield torch.randn(8)\n"
    found = paper(f"{BEGIN}{stream}Trainer(Net(), SETTINGS, train_dataset=Stream()).train()\n")
    assert found.events(MakeLoader)[0].loader.shuffle.single == FALSE
    found = paper(f"{BEGIN}{PLAIN}trainer.train()\n")
    assert found.events(MakeLoader)[0].loader.shuffle.single == TRUE


def test_a_loop_of_its_own(paper):
    own = (
        "class Own(Trainer):\n    def train(self):\n        came('train')\n"
        "        for batch in self.get_train_dataloader():\n            self.training_step(self.model, batch)\n"
    )
    found = paper(f"{BEGIN}{own}Own(Net(), SETTINGS, train_dataset=Pairs()).train()\n")
    assert _came(found) == ["train"]
    assert found.events(Backward)


def test_a_callback_that_comes_later(paper):
    watch = "class Watch(TrainerCallback):\n    def on_train_end(self, args, state, control, **kw): came('end')\n"
    assert "end" in _came(paper(f"{BEGIN}{PLAIN}{watch}trainer.add_callback(Watch())\ntrainer.train()\n"))


PARSED = """
from dataclasses import dataclass, field

@dataclass
class Names:
    name: str = field(default="bert", metadata={"help": "which"})

@dataclass
class More(TrainingArguments):
    depth: int = 2

names, settings = HfArgumentParser((Names, More)).parse_args_into_dataclasses()
reveal(names)  #: Names()
again, _, _ = HfArgumentParser((Names, More)).parse_args_into_dataclasses(return_remaining_strings=True)
reveal(again)  #: Names()
reveal(settings.local_process_index)  #: local rank
class OwnParser(HfArgumentParser):
    def parse(self):
        return self.parse_args_into_dataclasses()
own, _ = OwnParser((Names, More)).parse()
reveal(own.name)  #: setting name
from transformers.hf_argparser import HfArgumentParser as SameParser
from trl import SFTConfig, TrlParser
(same,) = SameParser(TrainingArguments).parse_args_into_dataclasses()
_, of_trl = TrlParser((Names, SFTConfig)).parse_args_and_config()
reveal((same.local_rank, of_trl.local_rank))  #: (local rank, local rank)
Trainer(Net(), settings, train_dataset=Pairs(), eval_dataset=Pairs()).train()
"""


def test_settings_of_the_command_line(paper):
    found = paper(BEGIN + PARSED)
    assert found.events(Backward)
    # Whether it is evaluated, the command line says.
    assert {event.context.evaluating for event in found.events(Forward)} == {False, True}


def test_one_rank_alone(paper):
    found = paper(f"{BEGIN}{PLAIN}if trainer.is_world_process_zero():\n    came('alone')\n")
    alone = next(event for event in found.events(Save) if text_of(event.path.single) == "alone")
    assert alone.rank_guards
    found = paper(f"{BEGIN}{PLAIN}if SETTINGS.local_rank == 0:\n    trainer.evaluate()\n")
    assert all(event.rank_guards for event in found.events(Collective))


TRL = """
from trl import DPOTrainer, GRPOTrainer, SFTConfig, SFTTrainer
"""


@pytest.mark.parametrize(
    "trainer",
    [
        "SFTTrainer(Net(), SFTConfig('out'), train_dataset=Pairs(), peft_config=None)",
        "SFTTrainer('gpt2', train_dataset=Pairs())",
        "DPOTrainer(Net(), Net(), args=SFTConfig('out'), train_dataset=Pairs())",
        "Own(model=Net(), train_dataset=Pairs())",
    ],
)
def test_trainers_that_derive_from_it(paper, trainer: str):
    own = "class Own(SFTTrainer):\n    def log(self, logs, start_time=None):\n        came('log')\n"
    assert paper(f"{BEGIN}{TRL}{own}{trainer}.train()\n").events(Backward)


def test_rewards_of_the_program(paper):
    reward = "def reward(completions, **kwargs):\n    came('reward')\n    return [0.0]\n"
    found = paper(f"{BEGIN}{TRL}{reward}GRPOTrainer('gpt2', reward_funcs=reward, train_dataset=Pairs()).train()\n")
    assert "reward" in _came(found)


def test_unsloth_hands_the_trainer_back(paper):
    paper(
        """
        from unsloth import FastLanguageModel
        from unsloth.chat_templates import train_on_responses_only
        from trl import SFTTrainer
        trainer = train_on_responses_only(SFTTrainer(FastLanguageModel.from_pretrained("m")[0]), response_part="<r>")
        reveal(trainer)  #: ManagedObject
        """
    )
