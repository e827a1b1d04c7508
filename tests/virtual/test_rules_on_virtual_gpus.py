"""Mistakes that CUDA or NCCL answers with an error: it is raised on virtual GPUs, and confirms what lint suspects.

The programs are fixtures of the rules. What is written right instead comes to its end.
"""

import sys
from pathlib import Path

import pytest

from tests.support.installs import require_torch
from tests.support.watching import REST, Watched, watch

require_torch()
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "rules"
RANKS, ALONE, NODES = "ranks", "alone", "nodes"
BAD = [
    ("device/batch_off_device/bad_page.py", "GPU201", ALONE),
    ("device/model_off_device/bad_page.py", "GPU202", ALONE),
    ("device/move_discarded/bad_page.py", "GPU203", ALONE),
    ("device/all_ranks_on_one_gpu/bad_page.py", "GPU204", RANKS),
    ("device/global_rank_as_device/bad_bound_group.py", "GPU205", NODES),
    ("device/device_never_set/bad_page.py", "GPU206", RANKS),
    ("device/wrap_before_move/bad_page.py", "GPU207", RANKS),
    ("device/device_ids_mismatch/bad_ids_of_first_gpu.py", "GPU208", RANKS),
    ("device/visible_devices_set_too_late/bad_each_rank/train.py", "GPU210", RANKS),
    ("device/tensor_not_a_buffer/bad_page.py", "GPU211", RANKS),
    ("device/layers_in_plain_list/bad_list_of_layers.py", "GPU212", RANKS),
    ("device/tensor_made_on_cpu/bad_page.py", "GPU213", RANKS),
    ("device/super_init_missing/bad_page.py", "GPU214", RANKS),
    ("device/activation_crosses_devices/bad_page.py", "GPU215", ALONE),
    ("device/cuda_in_loader_worker/bad_page.py", "GPU216", RANKS),
    ("device/gpu_tensor_pickled/bad_put_together.py", "GPU218", RANKS),
    ("collective/cpu_tensor_with_nccl/bad_page.py", "GPU510", RANKS),
    ("collective/gather_cuts_gradient/bad_temperature_alone_learns.py", "GPU507", RANKS),
    ("launch/cuda_before_fork/bad_page.py", "GPU406", ALONE),
    ("launch/backend_for_other_device/bad_device_option.py", "GPU407", RANKS),
    ("gradient/clip_before_unscale/bad_page.py", "GPU703", ALONE),
    ("wrap/model_not_wrapped/bad_head_beside_the_wrapper.py", "GPU101", RANKS),
    ("wrap/nested_wrappers/bad_both_in_a_loop.py", "GPU105", RANKS),
    ("wrap/data_parallel_loss_not_reduced/bad_page.py", "GPU108", ALONE),
    ("wrap/data_parallel_state_lost/bad_attribute_made_in_forward.py", "GPU109", ALONE),
    ("wrap/sync_batchnorm_misplaced/bad_on_cpu.py", "GPU110", RANKS),
]
GOOD = [
    ("device/batch_off_device/good_page.py", ALONE),
    ("device/all_ranks_on_one_gpu/good_page.py", RANKS),
    ("device/wrap_before_move/good_page.py", RANKS),
    ("device/tensor_not_a_buffer/good_page.py", RANKS),
    ("launch/backend_for_other_device/good_backend_with_device.py", RANKS),
    ("device/activation_crosses_devices/good_page.py", ALONE),
    ("collective/cpu_tensor_with_nccl/good_page.py", RANKS),
    ("gradient/clip_before_unscale/good_page.py", ALONE),
]


def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, launch: str) -> Watched:
    """A fixture, in a folder of its own."""
    monkeypatch.setenv("PYTHONPATH", str(FIXTURES), prepend=":")
    script = str(FIXTURES / program)
    ways = {
        RANKS: ("--virtual-gpus=2", script),
        ALONE: ("--virtual-gpus=2", "--", sys.executable, script),
        NODES: ("--virtual-gpus=1", "--virtual-nodes=2", script),
    }
    return watch(tmp_path, "--hang-after=30", "--kill-on-hang", *ways[launch])


@pytest.mark.parametrize(("program", "code", "launch"), BAD, ids=[code for _, code, _ in BAD])
def test_a_mistake_is_confirmed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, code: str, launch: str
) -> None:
    seen = started(tmp_path, monkeypatch, program, launch)
    states = {each["code"]: each["state"] for each in seen.report["suspicions"]}
    assert states.get(code) == "confirmed", seen.err[-3000:]
    assert seen.status != 0


SAVED = "import torch; torch.save(torch.nn.Linear(8, 1).cuda(1).state_dict(), 'checkpoint.pt')"


def test_a_checkpoint_of_a_gpu_that_this_node_lacks_needs_a_map_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(tmp_path, "--virtual-gpus=2", "--no-lint", "--", sys.executable, "-c", SAVED)
    seen = started(tmp_path, monkeypatch, "device/load_without_map_location/bad_page.py", NODES)
    assert "Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1" in seen.err
    states = {each["code"]: each["state"] for each in seen.report["suspicions"]}
    assert states.get("GPU209") == "confirmed", seen.err[-3000:]


OVER_GLOO = f"""\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("gloo")
model = DDP(torch.nn.Linear(8, 1).cuda(), device_ids=[gpu])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(4, 8).cuda()).pow(2).mean().backward()
    optimizer.step()
{REST}dist.destroy_process_group()
"""


def test_a_slow_backend_that_trains_to_its_end_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OVER_GLOO)
    seen = watch(tmp_path, "--virtual-gpus=2", "train.py")
    assert [(each["code"], each["line"], each["state"]) for each in seen.report["suspicions"]] == [
        ("GPU407", 8, "confirmed")
    ], seen.err[-3000:]


BY_HAND = f"""\
import os
import torch
import torch.distributed as dist

gpu = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(gpu)
dist.init_process_group("nccl")
torch.manual_seed(SEED)
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(gpu)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(4, 8).cuda()).pow(2).mean().backward()
    for each in model.parameters():
        dist.all_reduce(each.grad, op=dist.ReduceOp.AVG)
    optimizer.step()
{REST}dist.destroy_process_group()
"""


@pytest.mark.parametrize(("seed", "codes"), [("gpu", {"GPU101"}), ("0", set())])
def test_gradients_that_are_averaged_by_hand_need_equal_weights(tmp_path: Path, seed: str, codes: set[str]) -> None:
    (tmp_path / "train.py").write_text(BY_HAND.replace("SEED", seed))
    seen = watch(tmp_path, "--virtual-gpus=2", "--no-lint", "train.py")
    assert seen.codes == codes, seen.err[-3000:]
    assert all(each["line"] == 14 for each in seen.report["findings"])


def test_virtual_gpus_are_told_apart(tmp_path: Path) -> None:
    """An option that nobody reads keeps its default on all ranks, and they share no GPU."""
    option = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--local_rank', type=int)\n"
    text = OVER_GLOO.replace('"gloo"', '"nccl"').replace("gpu = int", f"{option}parser.parse_args()\ngpu = int", 1)
    (tmp_path / "train.py").write_text(text)
    seen = watch(tmp_path, "--virtual-gpus=2", "--no-lint", "train.py")
    assert seen.codes == set()
    assert seen.status == 0, seen.err[-3000:]


@pytest.mark.parametrize(("program", "launch"), GOOD, ids=[program.split("/")[1] for program, _ in GOOD])
def test_what_is_right_comes_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, launch: str
) -> None:
    seen = started(tmp_path, monkeypatch, program, launch)
    assert seen.status == 0, seen.err[-3000:]
    assert seen.codes == set()
