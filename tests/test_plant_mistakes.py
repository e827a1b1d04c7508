"""The tool that plants mistakes: it finds places for them in a healthy program, and lint finds them there."""

import ast
from pathlib import Path

import pytest

from tests.tools.editing import Code
from tests.tools.mistakes import OPERATORS
from tests.tools.plant_mistakes import main, planted_in, split, table
from tests.tools.reached import never_reached

PROGRAM = Path(__file__).resolve().parent.parent / "fixtures" / "programs" / "one_script" / "train.py"
NO_PLACE = {
    "set_epoch in the batch loop", "validation on rank 0", "loss summed with its graph", "unwrap_model dropped",
    "wrapper asked for an attribute", "arguments of spawn dropped", "main guard dropped", "logger guard dropped",
    "no_sync dropped",
}  # fmt: skip
"""Mistakes for which that program has no place."""


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_what_is_planted_is_a_program_still(operator):
    source = PROGRAM.read_text(encoding="utf-8")
    planted = list(operator.plant(Code(source)))
    assert bool(planted) is (operator.name not in NO_PLACE)
    for each in planted:
        ast.parse(each.text)
        assert each.text != source
        assert each.line in each.lines


@pytest.mark.slow
def test_every_mistake_is_found_in_a_plain_program():
    outcomes = list(planted_in(PROGRAM.parent, Path(PROGRAM.name)))
    assert {each.operator.name for each in outcomes} == {each.name for each in OPERATORS} - NO_PLACE
    assert [(each.operator.name, each.new) for each in outcomes if not each.found] == []


def test_set_epoch_goes_into_the_batch_loop():
    (operator,) = [each for each in OPERATORS if each.name == "set_epoch in the batch loop"]
    source = (
        "for epoch in range(3):\n"
        "    sampler.set_epoch(epoch)\n"
        "    for step, (x, y) in enumerate(loader):\n"
        "        model(x).backward()\n"
    )
    (planted,) = operator.plant(Code(source))
    assert planted.text.splitlines()[3].strip() == "sampler.set_epoch(step)"
    assert planted.line in planted.lines


EDITS = {
    "wrapper asked for an attribute": ("model.module.head(x)", "model.head(x)"),
    "unwrap_model dropped": ("accelerator.unwrap_model(model).save_pretrained(x)", "model.save_pretrained(x)"),
    "arguments of spawn dropped": ("mp.spawn(main, args=(2,), nprocs=2)", "mp.spawn(main, nprocs=2)"),
    "main guard dropped": (
        'if __name__ == "__main__":\n    mp.spawn(main, nprocs=2)', "if True:\n    mp.spawn(main, nprocs=2)"
    ),
    "logger guard dropped": ("if rank == 0:\n    wandb.init()", "if True:\n    wandb.init()"),
    "no_sync dropped": (
        "with model.no_sync():\n    loss.backward()", "with torch.enable_grad():\n    loss.backward()"
    ),
    "collective on rank 0": (
        "accelerator.wait_for_everyone()", "if accelerator.is_main_process:\n    accelerator.wait_for_everyone()"
    ),
    "wrap dropped": ("model = DDP(model)\nraw = model.module", "model = model\nraw = model"),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
def test_the_edit_of_a_mistake(name: str):
    (operator,) = [each for each in OPERATORS if each.name == name]
    before, after = EDITS[name]
    assert [each.text for each in operator.plant(Code(before))] == [after]


NO_MISTAKES = {
    "no_sync dropped": "class NoWrapper:\n    def __init__(self):\n        self.require_backward_grad_sync = False",
    "set_epoch dropped": "loader = accelerator.prepare(loader)\nloader.set_epoch(1)",
    "set_device(0)": "dist.init_process_group('gloo')\ntorch.cuda.set_device(rank)\nnet = net.cuda(rank)",
    "wrapper asked for an attribute": "net = model.module.head if hasattr(model, 'module') else model.head",
    "process group never made": "dist.init_process_group('nccl')\nfully_shard(model)",
    "model not moved": "model = model.to(device)\nmodel = accelerator.prepare(model)\nmodel.parameters()",
}


@pytest.mark.parametrize("name", NO_MISTAKES)
def test_nothing_is_planted_that_would_be_no_mistake(name: str):
    (operator,) = [each for each in OPERATORS if each.name == name]
    assert list(operator.plant(Code(NO_MISTAKES[name]))) == []


def test_a_program_with_mistakes_is_passed_over(capsys):
    assert main([str(PROGRAM.parent.parent / "broken_ddp" / "train.py")]) == 0
    said = capsys.readouterr()
    assert "not healthy" in said.err
    assert said.out == table([]) + "\n"


def test_the_folder_that_lint_works_in_can_be_given():
    assert split("/a/b/./c/d.py") == (Path("/a/b"), Path("c/d.py"))
    assert split("/a/b/c/d.py") == (Path("/a/b/c"), Path("d.py"))


MOVES = """model = Net().cuda().to(0)
model.cuda(0)
model = convert(model).to(0)
model = model.to(memory_format=last)
DDP(model)
"""


def test_a_model_that_is_moved_twice_loses_both_moves():
    (operator,) = [each for each in OPERATORS if each.name == "model not moved"]
    (planted,) = operator.plant(Code(MOVES))
    assert planted.text.splitlines()[:3] == ["model = Net()", "model", "model = convert(model)"]
    assert "memory_format" in planted.text


BRANCHES = """def build(config, is_pretrain):
    if is_pretrain:
        return masked(config)
    else:
        return labelled(config)

def labelled(config):
    return DataLoader(config, sampler=sampler)

def masked(config):
    return DataLoader(config, sampler=sampler)

@register
def vit_base(pretrained=False, **kwargs):
    if pretrained:
        weights = torch.load(kwargs["path"], map_location="cpu")
    return Net(**kwargs)

def sometimes(flag=False, other=False):
    if not flag:
        return 1
    if other:
        return 2
    return 3

build(config, is_pretrain=True)
create_model("vit_base", pretrained=False)
sometimes(config.flag)
run(sometimes)
"""


def test_nothing_is_planted_where_no_call_of_the_program_leads():
    asked = ast.parse("def has(args, name):\n    return eval(f'args.{name}')\nhas(args, 'batch_size')")
    dead = never_reached({"train.py": ast.parse(BRANCHES), "config.py": asked})["train.py"]
    lines = BRANCHES.splitlines()
    gone = {line.strip() for number, line in enumerate(lines, 1) if any(number in each for each in dead)}
    assert "return labelled(config)" in gone
    assert "def labelled(config):" in gone
    assert 'weights = torch.load(kwargs["path"], map_location="cpu")' in gone
    assert not {"return masked(config)", "def masked(config):", "return 1", "return 2"} & gone
