"""Where a finding stands, and that one cause is one finding."""

from pathlib import Path

import pytest

from gpudoctor.cli import main
from tests.support.linting import Seen, lint

LAUNCH = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
"""


def _of(code: str, folder: Path, text: str, **others: str) -> list[Seen]:
    for name, other in others.items():
        (folder / f"{name}.py").write_text(other)
    (folder / "train.py").write_text(LAUNCH + text)
    return [each for each in lint(folder / "train.py", folder=folder, extend=(code,)) if each.code in (code, "GPU002")]


def _line(folder: Path, text: str) -> int:
    return 1 + (folder / "train.py").read_text().splitlines().index(text)


def _tensors(count: int, ends: dict[int, str]) -> str:
    return "".join(f"dist.all_reduce(torch.zeros({n + 1})){ends.get(n, '')}\n" for n in range(count))


def test_one_cause_is_one_finding_with_its_other_places(tmp_path: Path) -> None:
    (found,) = _of("GPU510", tmp_path, _tensors(3, {}))
    first = _line(tmp_path, "dist.all_reduce(torch.zeros(1))")
    assert found.line == first
    assert {("train.py", first + 1), ("train.py", first + 2)} <= set(found.related)


def test_a_long_list_of_places_is_cut_and_counted(tmp_path: Path) -> None:
    (found,) = _of("GPU510", tmp_path, _tensors(12, {}))
    first = _line(tmp_path, "dist.all_reduce(torch.zeros(1))")
    shown = [line for _, line in found.related if line > first]
    assert shown == [*range(first + 1, first + 7)]


def test_a_comment_at_the_first_place_silences_them_all(tmp_path: Path) -> None:
    assert _of("GPU510", tmp_path, _tensors(3, {0: "  # gpudoctor: ignore[GPU510]"})) == []


def test_a_comment_at_another_place_silences_that_place(tmp_path: Path) -> None:
    (found,) = _of("GPU510", tmp_path, _tensors(3, {1: "  # gpudoctor: ignore[GPU510]"}))
    first = _line(tmp_path, "dist.all_reduce(torch.zeros(1))")
    assert ("train.py", first + 1) not in found.related
    assert ("train.py", first + 2) in found.related


def test_one_way_of_launching_is_one_finding_for_all_models(tmp_path: Path) -> None:
    text = """
import torch
from torch import nn
one = nn.DataParallel(nn.Linear(4, 4).cuda())
two = nn.DataParallel(nn.Linear(4, 4).cuda())
two(one(torch.randn(8, 4).cuda())).sum().backward()
"""
    (tmp_path / "train.py").write_text(text)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU107",))
    assert (found.line, found.related) == (4, (("train.py", 5),))


PAST = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)

    def other(self, x):
        return self.layer(x)

net = Net().cuda()
model = DistributedDataParallel(net, device_ids=[gpu])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(2, 4, device="cuda")
for step in range(100):
    optimizer.zero_grad()
    net(x).sum().backward()
    net(2 * x).sum().backward(){}
    {}
    optimizer.step()
"""


def test_forwards_past_one_wrapper_are_one_finding_with_one_fix(tmp_path: Path) -> None:
    (found,) = _of("GPU102", tmp_path, PAST.format("", ""))
    first = _line(tmp_path, "    net(x).sum().backward()")
    assert found.line == first
    assert ("train.py", first + 1) in found.related
    assert main(["lint", "--fix", "--unsafe-fixes", "--select=GPU102", str(tmp_path / "train.py")]) == 0
    assert (tmp_path / "train.py").read_text().count("    model(") == 2


def test_a_comment_keeps_its_place_from_the_fix_of_the_others(tmp_path: Path) -> None:
    _of("GPU102", tmp_path, PAST.format("  # gpudoctor: ignore[GPU102]", ""))
    assert main(["lint", "--fix", "--unsafe-fixes", "--select=GPU102", str(tmp_path / "train.py")]) == 0
    assert (tmp_path / "train.py").read_text().count("    model(") == 1


def test_what_takes_another_remedy_is_told_apart_from_what_is_fixed(tmp_path: Path) -> None:
    first, second = _of("GPU102", tmp_path, PAST.format("", "net.other(x).sum().backward()"))
    assert second.line == first.line + 2 == _line(tmp_path, "    net.other(x).sum().backward()")


def test_saves_under_one_test_of_the_local_rank_are_one_finding(tmp_path: Path) -> None:
    text = """
model = DistributedDataParallel(nn.Linear(4, 4).cuda(), device_ids=[gpu])
if gpu == 0:
    torch.save(model.module.state_dict(), "last.pt")
    torch.save(model.module.state_dict(), "best.pt")
if gpu == 0:
    torch.save(model.module.state_dict(), "end.pt")
"""
    first, second = _of("GPU602", tmp_path, text)
    at = _line(tmp_path, "if gpu == 0:")
    assert (first.line, second.line) == (at + 1, at + 4)
    assert ("train.py", at + 2) in first.related


def test_a_finding_of_another_file_names_a_place_in_the_one_that_was_asked_for(tmp_path: Path) -> None:
    helper = "import torch.distributed as dist\n\ndef save():\n    if dist.get_rank() == 0:\n        dist.barrier()\n"
    (found,) = _of("GPU501", tmp_path, "from helper import save\nsave()\n", helper=helper)
    assert (found.path, found.line) == ("helper.py", 5)
    assert ("train.py", _line(tmp_path, "save()")) in found.related


def test_the_call_under_the_test_is_told_and_not_what_lies_in_the_helper(tmp_path: Path) -> None:
    helper = "import torch.distributed as dist\n\ndef wait():\n    dist.barrier()\n"
    (found,) = _of("GPU501", tmp_path, "from helper import wait\nif dist.get_rank() == 0:\n    wait()\n", helper=helper)
    assert (found.path, found.line) == ("train.py", _line(tmp_path, "    wait()"))
    assert ("helper.py", 4) in found.related


def test_a_decorator_that_lets_rank_0_pass_is_not_the_place(tmp_path: Path) -> None:
    decorated = """
def main_only(function):
    def inner(*args):
        if dist.get_rank() == 0:
            return function(*args)
    return inner

@main_only
def report():
    dist.barrier()

report()
"""
    (found,) = _of("GPU501", tmp_path, decorated)
    assert found.line == _line(tmp_path, "    dist.barrier()")


TRAINING = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--amp", action="store_true")
parser.add_argument("--no-sync", dest="sync", action="store_false")
parser.add_argument("--resume")
parser.add_argument("-large", type=int, default=0)
parser.add_argument("--every", type=int, default=1)
parser.add_argument("--loss", default="l1")
parser.add_argument("--lr", type=float, required=True)
args = parser.parse_args()
model = DistributedDataParallel(nn.Linear(4, 4).cuda(), device_ids=[gpu])
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
x = torch.randn(2, 4, device="cuda")
"""


READ = """
import easydict
import yaml
from yacs.config import CfgNode
given = easydict.EasyDict(yaml.safe_load(open("given.yaml")))
cfg = CfgNode()
cfg.tune = False
cfg.model = CfgNode()
cfg.model.init = False
cfg.merge_from_file("given.yaml")
"""


def _asked(folder: Path, test: str, text: str = TRAINING) -> Seen:
    text += f"{test}:\n    if dist.get_rank() == 0:\n        dist.barrier()\n"
    (found,) = _of("GPU501", folder, text)
    return found


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("if args.amp", "Only with `--amp`, which is off by default."),
        ("if not args.sync", "Only with `--no-sync`, which is off by default."),
        ("if args.large", "Only with another `-large` than the default, `0`."),
        ("if args.resume is not None", "Only with `--resume`, which is not given by default."),
        ("if args.resume and args.sync", "Only with `--resume`, which is not given by default."),
        ("if args.every > 1", "Only with another `--every` than the default, `1`."),
        ("if args.loss == 'l2'", "Only with another `--loss` than the default, `l1`."),
        ("if args.amp and not args.sync", "Only with `--amp` and `--no-sync`, which are off by default."),
        (
            "if args.every > 1 and args.loss == 'l2'",
            "Only with another `--every` than the default, `1`, and another `--loss` than the default, `l1`.",
        ),
        (
            "if args.amp and args.resume",
            "Only with `--amp`, which is off by default. Only with `--resume`, which is not given by default.",
        ),
        ("if args.amp or args.every > 4", "Only with other values of `--amp` and `--every` than the defaults."),
    ],
)
def test_what_takes_an_unusual_option_says_so_and_is_a_warning(tmp_path: Path, test: str, said: str) -> None:
    found = _asked(tmp_path, test)
    assert found.message.endswith(f" {said}")
    assert found.severity == "warning"


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("if args.lr > 1", "Only where `args.lr > 1`."),
        ("if not args.lr > 1", "Only where `args.lr <= 1`."),
        ("if given.init", "Only where `given.init` is set."),
        ("if not given.init", "Only where `given.init` is not set."),
        ("if given.kind != 'near'", "Only where `given.kind != 'near'`."),
        ("if given.kind is not None", "Only where `given.kind is not None`."),
        ("if given.kind is None and not given.kind", "Only where `given.kind is None`."),
    ],
)
def test_a_setting_without_a_default_is_told_and_may_well_be_so(tmp_path: Path, test: str, said: str) -> None:
    found = _asked(tmp_path, test, TRAINING + READ)
    assert found.message.endswith(f" {said}")
    assert found.severity == "error"


@pytest.mark.parametrize(
    ("test", "found"),
    [
        ("if not args.loss", 0),
        ("if args.loss == '' or args.loss is None", 0),
        ("if args.amp and not args.loss", 0),
        ("if args.every is None", 0),
        ("if args.resume is None", 1),
        ("if args.loss == '' or args.amp", 1),
        ("if args.loss", 1),
    ],
)
def test_nobody_empties_an_option_that_is_something_by_default(tmp_path: Path, test: str, found: int) -> None:
    text = f"{TRAINING}{test}:\n    if dist.get_rank() == 0:\n        dist.barrier()\n"
    assert len(_of("GPU501", tmp_path, text)) == found


def test_what_only_an_option_lets_be_another_one_takes_that_option(tmp_path: Path) -> None:
    resumed = "begin = 0\nif args.resume:\n    begin = int(args.resume.split('-')[1])\n"
    found = _asked(tmp_path, "if begin", TRAINING + resumed)
    assert found.message.endswith(" Only with `--resume`, which is not given by default.")
    assert found.severity == "warning"


def test_of_two_tests_of_a_setting_the_one_that_says_more_is_told(tmp_path: Path) -> None:
    read = """
def read(name, cast, default):
    found = os.getenv(name)
    return (cast(found) if found is not None else cast(default)), found is None

every, _ = read("EVERY", int, "0")
"""
    found = _asked(tmp_path, "if every", f"{TRAINING}import os\n{read}")
    assert found.message.count("Only where") == 1
    assert found.message.endswith(" Only where `EVERY` is set.")


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("if args.loss.lower() in ['l2', 'l3']", "Only with another `--loss` than the default, `l1`."),
        ("if args.loss.startswith('l2')", "Only with another `--loss` than the default, `l1`."),
        ("if getattr(given, 'init', False)", "Only with `given.init`, which is off by default."),
        ("if getattr(given, 'amp', False)", "Only with `--amp`, which is off by default."),
        ("if given.get('init')", "Only with `given.get('init')`, which is not given by default."),
        ("if cfg.model.init", "Only with `cfg.model.init`, which is off by default."),
    ],
)
def test_what_takes_an_unusual_setting_says_so_and_is_a_warning(tmp_path: Path, test: str, said: str) -> None:
    found = _asked(tmp_path, test, TRAINING + READ)
    assert found.message.endswith(f" {said}")
    assert found.severity == "warning"


@pytest.mark.parametrize(
    "test", ["if args.loss.startswith('l1')", "if getattr(given, 'sync', True)", "if not cfg.tune"]
)
def test_what_a_setting_comes_to_by_itself_stays_an_error(tmp_path: Path, test: str) -> None:
    found = _asked(tmp_path, test, TRAINING + READ)
    assert "Only w" not in found.message
    assert found.severity == "error"


@pytest.mark.parametrize(
    "test",
    [
        "if not args.amp",
        "if args.sync",
        "if args.loss == 'l1'",
        "if args.every < 5",
        "if args.amp or args.sync",
        "if torch.cuda.is_available()",
        "if dist.get_world_size() > 1",
    ],
)
def test_what_happens_by_default_stays_an_error(tmp_path: Path, test: str) -> None:
    found = _asked(tmp_path, test)
    assert "Only w" not in found.message
    assert found.severity == "error"


HELPED = """
def wait(asked=False):
    if asked:
        dist.barrier()

if dist.get_rank() == 0:
    wait({})
"""


@pytest.mark.parametrize("given", ["args.amp", "asked=getattr(args, 'amp', False) and getattr(args, 'lr', 0) > 1"])
def test_a_call_to_a_helper_asks_for_the_options_of_what_happens_in_it(tmp_path: Path, given: str) -> None:
    (found,) = _of("GPU501", tmp_path, TRAINING + HELPED.format(given))
    assert found.line == _line(tmp_path, f"    wait({given})")
    assert found.message.endswith(" Only with `--amp`, which is off by default.")
    assert found.severity == "warning"


def test_a_helper_that_asks_for_no_option_is_told_plainly_whoever_else_calls_it(tmp_path: Path) -> None:
    text = TRAINING + HELPED.format("True") + "if args.amp:\n    wait(True)\n"
    (found,) = _of("GPU501", tmp_path, text)
    assert "Only w" not in found.message
    assert found.severity == "error"


def test_the_option_that_launches_is_taken_on(tmp_path: Path) -> None:
    text = TRAINING.replace("model = Dist", "model = nn.Linear(4, 4).cuda()\nif args.amp:\n    model = Dist")
    assert _asked(tmp_path, "if args.amp", text).severity == "error"


def test_the_option_that_wraps_one_more_model_is_told(tmp_path: Path) -> None:
    judged = (
        "asked = args.amp and args.every > 1\nif asked:\n    judge = DistributedDataParallel(nn.Linear(4, 4).cuda())\n"
    )
    found = _asked(tmp_path, "if args.amp and args.every > 1", TRAINING + judged)
    assert "Only with `--amp`, which is off by default. Only with another `--every`" in found.message
    assert found.severity == "warning"


SHARDED = """
import json
class Given:
    def __init__(self, settings):
        vars(self).update(settings)

given = Given(json.load(open("given.json")))
model = nn.Linear(4, 4).cuda()
if getattr(given, "sharded", False):
    model = torch.distributed.fsdp.FullyShardedDataParallel(model)
else:
    model = DistributedDataParallel(model, device_ids=[gpu])
if dist.get_rank() == 0:
    with torch.no_grad():
        model(torch.randn(2, 4, device="cuda"))
"""


def test_the_option_that_wraps_otherwise_than_by_default_is_told(tmp_path: Path) -> None:
    (found,) = _of("GPU502", tmp_path, SHARDED)
    assert found.message.endswith(" Only with `given.sharded`, which is off by default.")
    assert found.severity == "warning"


def test_an_option_that_wraps_something_else_for_one_process_is_told(tmp_path: Path) -> None:
    text = TRAINING + "if args.amp:\n    judge = nn.DataParallel(nn.Linear(4, 4).cuda())\n"
    assert "Only with `--amp`" in _asked(tmp_path, "if args.amp", text).message


def test_the_option_that_trains_is_taken_on(tmp_path: Path) -> None:
    text = TRAINING + "if args.amp:\n    model(x).sum().backward()\n    optimizer.step()\n"
    assert _asked(tmp_path, "if args.amp", text).severity == "error"


def test_an_option_of_another_default_elsewhere_says_nothing(tmp_path: Path) -> None:
    text = TRAINING + "argparse.ArgumentParser().add_argument('--amp', default=True)\n"
    assert _asked(tmp_path, "if args.amp", text).severity == "error"


ROUNDS = """
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(64, 4)))
for step, (x,) in enumerate(loader):
    model(x.cuda()).square().mean().backward()
    if (step + 1) % args.every == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("code", ["GPU701", "GPU713"])
def test_rounds_without_a_step_take_another_number_than_1(tmp_path: Path, code: str) -> None:
    (found,) = _of(code, tmp_path, TRAINING + ROUNDS)
    assert found.message.endswith(" Only with another `--every` than the default, `1`.")


def test_rounds_without_a_step_are_told_plainly_where_that_is_the_default(tmp_path: Path) -> None:
    (found,) = _of("GPU713", tmp_path, (TRAINING + ROUNDS).replace("default=1", "default=4"))
    assert "Only w" not in found.message


def test_a_scaler_that_is_off_by_default_takes_the_option(tmp_path: Path) -> None:
    step = """
scaler = torch.amp.GradScaler("cuda", enabled=args.amp)
for _ in range(9):
    scaler.scale(model(x).square().mean()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
"""
    (found,) = _of("GPU703", tmp_path, TRAINING + step)
    assert found.message.endswith(" Only with `--amp`, which is off by default.")


EPOCHS = """
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
model = DistributedDataParallel(nn.Linear(4, 4).cuda(), device_ids=[gpu])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
near, far = TensorDataset(torch.randn(64, 4)), TensorDataset(torch.randn(64, 4))
one = DistributedSampler(near)
two = DistributedSampler(far)
loader = DataLoader(near, batch_size=4, sampler=one)
other = DataLoader(far, batch_size=4, sampler=two)
for epoch in range(9):
    for batches in (loader, other):
        for (x,) in batches:
            optimizer.zero_grad()
            model(x.cuda()).square().mean().backward()
            optimizer.step()
"""


def test_what_two_samplers_of_one_loop_lack_is_one_finding_that_names_both(tmp_path: Path) -> None:
    (found,) = _of("GPU302", tmp_path, EPOCHS)
    assert found.line == _line(tmp_path, "for epoch in range(9):")
    assert {
        ("train.py", _line(tmp_path, f"{name} = DistributedSampler({data})"))
        for name, data in (("one", "near"), ("two", "far"))
    } <= set(found.related)


MET = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 4)), batch_size=4)
one, two = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
for x, y in loader:
    a = one(x)
    b = two(x)
    nn.functional.mse_loss(a + b, y).backward()
"""


def test_a_batch_is_told_once_for_all_that_it_meets(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(MET)
    of_x, of_y = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU201",))
    assert of_x.line == _line(tmp_path, "    a = one(x)")
    assert ("train.py", _line(tmp_path, "    b = two(x)")) in of_x.related
    assert of_y.line == of_x.line + 2


def test_splits_without_a_seed_are_one_finding(tmp_path: Path) -> None:
    text = """
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset, random_split
data = TensorDataset(torch.randn(64, 4))
near, far = random_split(data, [32, 32])
left, right = random_split(near, [16, 16])
model = DistributedDataParallel(nn.Linear(4, 4).cuda(), device_ids=[gpu])
for (x,) in DataLoader(left, batch_size=4, sampler=DistributedSampler(left)):
    model(x.cuda()).sum().backward()
"""
    (found,) = _of("GPU308", tmp_path, text)
    assert found.line == _line(tmp_path, "near, far = random_split(data, [32, 32])")
    assert ("train.py", found.line + 1) in found.related


def test_one_tensor_made_on_the_cpu_is_told_once(tmp_path: Path) -> None:
    text = """
import torch
from torch import nn
one, two = nn.Linear(4, 4).cuda(), nn.Linear(4, 4).cuda()
x = torch.randn(2, 4, device="cuda")
for step in range(9):
    mask = torch.ones(2, 4)
    a = one(x) * mask
    b = two(x) * mask
    (a + b).sum().backward()
"""
    (tmp_path / "train.py").write_text(text)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU213",))
    assert ("train.py", found.line + 1) in found.related


def test_text_of_the_environment_is_told_once_where_it_is_read(tmp_path: Path) -> None:
    text = """
rank = os.environ["RANK"]
if rank == 0:
    print("first")
if rank > 0:
    print("other")
"""
    (found,) = _of("GPU409", tmp_path, text)
    assert found.line == _line(tmp_path, 'rank = os.environ["RANK"]')


def test_what_led_there_is_told_of_the_program_that_trains(tmp_path: Path) -> None:
    experiment = "import os\nclass Experiment:\n    def __init__(self):\n        os.makedirs('cache')\n"
    both = "import torch, torch.distributed as dist\nfrom experiment import Experiment\n"
    both += "dist.init_process_group('nccl')\nExperiment()\n"
    for name, text in {"experiment": experiment, "draw": both, "train": both + TRAINS}.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (found,) = (each for each in lint(tmp_path, folder=tmp_path, extend=("GPU608",)) if each.code == "GPU608")
    assert ("train.py", 4) in found.related
    assert "draw.py" not in [path for path, _ in found.related]


TRAINS = """
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
"""
