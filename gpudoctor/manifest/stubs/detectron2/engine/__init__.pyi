"""Ranks that the program starts itself, and the loops of its trainers."""

import argparse

import torch
from detectron2.modeling import build_model
from detectron2.solver import build_optimizer
from detectron2.utils import comm

from gpudoctor.manifest.effects import Setting, followed, possibly, seeds, starts_ranks, trains

@followed()
def default_argument_parser(epilog=None):
    parser = argparse.ArgumentParser(epilog=epilog)
    for name in ("--config-file", "--num-gpus", "--num-machines", "--machine-rank", "--dist-url"):
        parser.add_argument(name)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--eval-only", action="store_true")
    parser.add_argument("opts", nargs=argparse.REMAINDER)
    return parser

@seeds(of="torch numpy python")
def default_setup(cfg, args): ...
@trains(in_ranks=True)
@followed()
def launch(main_func, num_gpus_per_machine, num_machines=1, machine_rank=0, dist_url=None, args=(), **more):
    def work(function, given):
        torch.distributed.init_process_group("nccl", _address(), world_size=comm.get_world_size(), rank=comm.get_rank())
        torch.cuda.set_device(comm.get_local_rank())
        function(*given)
    return _Ranks().start(work, (main_func, args))

def _address() -> Setting: ...

@followed()
class _Ranks:
    @starts_ranks(function="function", args="args", meet=True)
    def start(self, function, args): ...

@followed()
def create_ddp_model(model, *, fp16_compression=False, **kwargs):
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[comm.get_local_rank()], **kwargs)

class HookBase:
    trainer: Setting
    def before_train(self) -> None: ...
    after_train = before_step = after_backward = after_step = before_train

class SimpleTrainer:
    def __getattr__(self, name) -> Setting: ...
    def __init__(self, model, data_loader, optimizer, **more):
        self.model = model
        self.data_loader = data_loader
        self.optimizer = optimizer
        self._hooks = []
    def register_hooks(self, hooks):
        # A hook of the library does nothing to what the program does.
        for hook in hooks:
            if possibly(hook is not None):
                hook.trainer = self
                self._hooks.append(hook)
    def train(self, start_iter=0, max_iter=None):
        self._tell("before_train")
        self.model.train()
        self._data_loader_iter = iter(self.data_loader)
        for count in range(start_iter, self.max_iter):
            self.iter = count
            self._tell("before_step")
            self.run_step()
            self._tell("after_step")
        self._tell("after_train")
    def run_step(self):
        losses = sum(self.model(next(self._data_loader_iter)).values())
        self.optimizer.zero_grad()
        losses.backward()
        self.optimizer.step()
    def _tell(self, event):
        for hook in self._hooks:
            getattr(hook, event)()

class DefaultTrainer(SimpleTrainer):
    def __init__(self, cfg):
        self.cfg = cfg
        model = self.build_model(cfg)
        self.optimizer = self.build_optimizer(cfg, model)
        self.data_loader = self.build_train_loader(cfg)
        self.model = create_ddp_model(model, broadcast_buffers=False)
        self._hooks = []
        self.register_hooks(self.build_hooks())
    @classmethod
    @followed()
    def build_model(cls, cfg):
        return build_model(cfg)
    @classmethod
    @followed()
    def build_optimizer(cls, cfg, model):
        return build_optimizer(cfg, model)
    @classmethod
    def build_train_loader(cls, cfg) -> Setting: ...
    @classmethod
    def build_evaluator(cls, cfg, dataset_name) -> Setting: ...
    @classmethod
    def build_lr_scheduler(cls, cfg, optimizer) -> Setting: ...
    def build_hooks(self):
        return []
    def build_writers(self):
        return []
    def resume_or_load(self, resume=True) -> None: ...
