"""A job of two ranks that fails in the way that its argument names; run by the tests beside it."""

import argparse
import datetime
import faulthandler
import importlib
import os
import resource
import signal
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

LIMIT = datetime.timedelta(seconds=3)


def error_of_one_rank(rank: int) -> None:
    if rank == 1:
        {}["label"]  # first
    dist.all_reduce(torch.ones(1))


def killed(rank: int) -> None:
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1))


def segmentation_fault(rank: int) -> None:
    if rank == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    dist.all_reduce(torch.ones(1))


def one_rank_calls(rank: int) -> None:
    if rank == 0:
        dist.all_reduce(torch.ones(1))  # first


def one_rank_comes_late(rank: int) -> None:
    impatient = dist.new_group(timeout=LIMIT)
    if rank == 1:
        time.sleep(60)
    dist.all_reduce(torch.ones(1), group=impatient)  # first


def calls_are_compared(rank: int) -> None:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    compared = dist.new_group(timeout=LIMIT)
    if rank == 0:
        dist.all_reduce(torch.ones(4), group=compared)
    else:
        dist.broadcast(torch.ones(4), 0, group=compared)  # first


def shapes_are_compared(rank: int) -> None:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    dist.all_reduce(torch.ones(4 + rank), group=dist.new_group(timeout=LIMIT))  # first


def sizes_differ(rank: int) -> None:
    dist.all_reduce(torch.ones(4 if rank == 0 else 8))


def objects_meet_numbers(rank: int) -> None:
    if rank == 0:
        dist.all_gather_object([None, None], "metrics")  # first
    else:
        dist.all_gather([torch.zeros(1, dtype=torch.int64) for _ in range(2)], torch.tensor([10**15]))


def barrier_is_monitored(rank: int) -> None:
    if rank == 0:
        dist.monitored_barrier(timeout=LIMIT)  # first
    else:
        time.sleep(60)


def unused_parameters(rank: int) -> None:
    model = DistributedDataParallel(_Half())
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()  # first


class _Half(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(4, 1)
        self.unused = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x)


def models_differ(rank: int) -> None:
    DistributedDataParallel(nn.Linear(4, 1 + rank))  # first


def nothing_trains(rank: int) -> None:
    DistributedDataParallel(nn.Linear(4, 1).requires_grad_(False))  # first


def error_in_a_worker(rank: int) -> None:
    for _ in DataLoader(_Samples(rank), batch_size=2, num_workers=1):
        dist.all_reduce(torch.ones(1))


class _Samples(Dataset):
    def __init__(self, rank: int) -> None:
        self.rank = rank

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.rank == 1 and index == 5:
            raise ValueError("a bad sample")  # first
        return torch.ones(1)


def worker_exits(rank: int) -> None:
    samples = _Exits() if rank == 1 else _Samples(rank)
    for _ in DataLoader(samples, batch_size=2, num_workers=1):  # first
        dist.all_reduce(torch.ones(1))


class _Exits(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        os._exit(1)


def worker_crashes(rank: int) -> None:
    samples = _Crashes() if rank == 1 else _Samples(rank)
    for _ in DataLoader(samples, batch_size=2, num_workers=1):  # first
        dist.all_reduce(torch.ones(1))


class _Crashes(Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGSEGV)
        return torch.ones(1)


def worker_maps_a_file_that_is_cut(rank: int) -> None:
    samples = _Mapped() if rank == 1 else _Samples(rank)
    for _ in DataLoader(samples, batch_size=2, num_workers=1):  # first
        dist.all_reduce(torch.ones(1))


class _Mapped(_Exits):
    def __getitem__(self, index: int) -> torch.Tensor:
        data = Path("data.bin")
        data.write_bytes(bytes(40_000))
        mapped = torch.from_file(str(data), size=10_000)
        os.truncate(data, 0)
        return mapped.sum()


def too_many_values(rank: int) -> None:
    largest, _ = torch.ones(2, 3)[0], torch.ones(3)
    _, _ = largest  # first


def one_rank_is_interrupted(rank: int) -> None:
    if rank == 1:
        signal.raise_signal(signal.SIGINT)  # first
    dist.all_reduce(torch.ones(1))


def exit_code(rank: int) -> None:
    if rank == 1:
        os._exit(3)
    dist.all_reduce(torch.ones(1))


def group_made_twice(rank: int) -> None:
    dist.init_process_group("gloo")  # first


def attribute_of_the_wrapper(rank: int) -> None:
    print(DistributedDataParallel(_Half()).used)  # first


def module_of_a_bare_model(rank: int) -> None:
    print(_Half().module)  # first


def refused_by_the_processor(rank: int) -> None:
    if rank == 1:
        os.kill(os.getpid(), signal.SIGFPE)
    dist.all_reduce(torch.ones(1))


def names_of_the_wrapper(rank: int) -> None:
    _Half().load_state_dict(DistributedDataParallel(_Half()).state_dict())  # first


def variable_changed(rank: int) -> None:
    weight = torch.ones(2, requires_grad=True)
    square = weight.exp()
    square += 1
    square.sum().backward()  # first


def loss_of_several_numbers(rank: int) -> None:
    nn.Linear(4, 2)(torch.ones(2, 4)).backward()  # first


def checkpoint_does_not_fit(rank: int) -> None:
    nn.Linear(4, 2).load_state_dict(nn.Linear(4, 3).state_dict())  # first


def port_is_in_use(rank: int) -> None:
    taken = dist.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    if rank == 1:
        dist.TCPStore("localhost", taken.port, is_master=True, wait_for_workers=False)  # first
    dist.barrier()


def nccl_on_the_cpu(rank: int) -> None:
    dist.new_group(backend="nccl")  # first


def native_error_with_faulthandler(rank: int) -> None:
    faulthandler.enable()
    if rank == 1:
        faulthandler._sigsegv()  # type: ignore[attr-defined]  # first
    dist.all_reduce(torch.ones(1))


def aborted_by_native_code(rank: int) -> None:
    faulthandler.enable()
    if rank == 1:
        os.abort()  # first
    dist.all_reduce(torch.ones(1))


def terminal_is_closed(rank: int) -> None:
    dist.barrier()
    if rank == 0:
        os.kill(os.getppid(), signal.SIGHUP)
    time.sleep(60)


def launcher_is_stopped(rank: int) -> None:
    dist.barrier()
    if rank == 0:
        os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(60)


def stacks_of_a_hang(rank: int) -> None:
    # The launcher ends the other rank with the first that ends: both are to begin to wait at one time.
    dist.barrier()
    faulthandler.dump_traceback_later(3, exit=True)
    if rank == 1:
        time.sleep(60)
    dist.all_reduce(torch.ones(1))  # first


def option_of_the_launcher(rank: int) -> None:
    argparse.ArgumentParser("job.py").parse_args([f"--local-rank={rank}"])


def option_is_missing(rank: int) -> None:
    parser = argparse.ArgumentParser("job.py")
    parser.add_argument("--data", required=True)
    parser.parse_args([])


def more_than_the_group_has(rank: int) -> None:
    dist.barrier()
    dist.destroy_process_group()
    os.environ["TORCH_DIST_INIT_BARRIER"] = "1"
    used = dist.HashStore()
    used.add("store_based_barrier_key:0", 5)
    dist.init_process_group("gloo", store=used, rank=0, world_size=1, timeout=LIMIT)  # first


def group_of_some_ranks(rank: int) -> None:
    os.environ["TORCH_DIST_INIT_BARRIER"] = "1"
    dist.new_group()
    if rank == 0:
        dist.new_group([0], timeout=LIMIT)  # first
    time.sleep(60)


def worker_is_told_to_end(rank: int) -> None:
    samples = _Ends() if rank == 1 else _Samples(rank)
    for _ in DataLoader(samples, batch_size=2, num_workers=1):  # first
        dist.all_reduce(torch.ones(1))


class _Ends(_Exits):
    def __getitem__(self, index: int) -> torch.Tensor:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
        raise AssertionError


def parameter_ready_twice(rank: int) -> None:
    model = DistributedDataParallel(_Recomputed(), find_unused_parameters=True)
    model(torch.ones(2, 4, requires_grad=True)).sum().backward()  # first


class _Recomputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = checkpoint(self.layer, x, use_reentrant=True)
        return x


def sharded_checkpoint_does_not_fit(rank: int) -> None:
    dcp.save({"weight": torch.ones(4)}, checkpoint_id="saved")
    dcp.load({"weight": torch.ones(5)}, checkpoint_id="saved")  # first


def checkpoint_cannot_be_written(rank: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    torch.save(torch.ones(100_000), f"model-{rank}.pt")  # first


def frozen_and_trained_in_one_flat_parameter(rank: int) -> None:
    FullyShardedDataParallel(nn.Sequential(nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 1)))  # first


def dtypes_differ_in_one_flat_parameter(rank: int) -> None:
    FullyShardedDataParallel(nn.Sequential(nn.Linear(4, 4).bfloat16(), nn.Linear(4, 1)))  # first


def step_after_a_backward_without_exchange(rank: int) -> None:
    model = FullyShardedDataParallel(nn.Linear(8, 8), device_id=torch.device("cpu"))
    optimizer = torch.optim.Adam(model.parameters())
    for exchange in (nullcontext, model.no_sync):
        with exchange():
            model(torch.ones(2, 8)).sum().backward()
        optimizer.step()  # first


def samples_of_unlike_shapes(rank: int) -> None:
    for _ in DataLoader([torch.ones(3), torch.ones(4)], batch_size=2, num_workers=1):  # first
        pass


def file_is_missing(rank: int) -> None:
    Path(f"part-{rank}.bin").read_bytes()  # first


def package_is_missing(rank: int) -> None:
    importlib.import_module("no_such_package")  # first


def peer_ends_while_connecting(rank: int) -> None:
    dist.barrier()
    if rank == 1:
        threading.Timer(1, os._exit, [0]).start()
    else:
        time.sleep(2)
    dist.new_group(timeout=LIMIT)  # first


def error_that_led_to_another(rank: int) -> None:
    try:
        nn.Linear(4, 2).load_state_dict(nn.Linear(4, 3).state_dict())
    except RuntimeError as error:
        raise ValueError("no checkpoint") from error  # first


def main() -> None:
    kind = globals()[sys.argv[1]]
    dist.init_process_group("gloo")
    kind(dist.get_rank())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
