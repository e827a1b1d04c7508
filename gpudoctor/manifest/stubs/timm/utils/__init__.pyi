"""What training programs take from timm beside models: who writes, what is averaged, where checkpoints go."""

import os
import random

import numpy as np
import torch
import torch.distributed as dist

from gpudoctor.manifest.effects import followed

@followed()
def init_distributed_device(args):
    args.distributed = int(os.environ.get("WORLD_SIZE", 1)) > 1
    args.local_rank = int(os.environ.get("LOCAL_RANK", 0))
    args.rank = 0
    args.world_size = 1
    if args.distributed:
        dist.init_process_group("nccl")
        args.rank = dist.get_rank()
        args.world_size = dist.get_world_size()
    args.device = torch.device("cuda", args.local_rank)
    torch.cuda.set_device(args.device)
    return args.device

@followed()
def accuracy(output, target, topk=(1,)):
    return [output.eq(target).sum() * 100.0 / target.size(0) for _ in topk]

@followed()
def is_primary(args, group=None, always_primary_if_group=False):
    return args.rank == 0

@followed()
def random_seed(seed=42, rank=0):
    torch.manual_seed(seed + rank)
    np.random.seed(seed + rank)
    random.seed(seed + rank)

@followed()
def reduce_tensor(tensor, n):
    reduced = tensor.clone()
    dist.all_reduce(reduced, op=dist.ReduceOp.SUM)
    reduced /= n
    return reduced

@followed()
def distribute_bn(model, world_size, reduce=False):
    for buffer in model.buffers():
        if reduce:
            dist.all_reduce(buffer, op=dist.ReduceOp.SUM)
            buffer /= float(world_size)
        else:
            dist.broadcast(buffer, 0)

@followed()
def dispatch_clip_grad(parameters, value, mode="norm", norm_type=2.0):
    torch.nn.utils.clip_grad_norm_(parameters, value, norm_type=norm_type)

@followed()
def unwrap_model(model):
    return getattr(model, "module", model)

@followed()
def get_state_dict(model, unwrap_fn=unwrap_model):
    return unwrap_fn(model).state_dict()

@followed()
def get_outdir(path, *paths, inc=False):
    folder = os.path.join(path, *paths)
    if not os.path.exists(folder):
        os.makedirs(folder)
    return folder

@followed()
def update_summary(
    epoch, train_metrics, eval_metrics, filename, lr=None, write_header=False, log_wandb=False, wandb_module=None
):
    with open(filename, mode="a") as file:
        file.write(str(epoch))

@followed()
class AverageMeter:
    def __init__(self):
        self.reset()
    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0
    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

@followed()
class NativeScaler:
    state_dict_key = "amp_scaler"
    def __init__(self, device="cuda"):
        self._scaler = torch.cuda.amp.GradScaler()
    def __call__(
        self,
        loss,
        optimizer,
        clip_grad=None,
        clip_mode="norm",
        parameters=None,
        create_graph=False,
        need_update=True,
    ):
        self._scaler.scale(loss).backward(create_graph=create_graph)
        if need_update:
            if clip_grad is not None:
                self._scaler.unscale_(optimizer)
                dispatch_clip_grad(parameters, clip_grad, mode=clip_mode)
            self._scaler.step(optimizer)
            self._scaler.update()
    def state_dict(self):
        return self._scaler.state_dict()
    def load_state_dict(self, state_dict):
        self._scaler.load_state_dict(state_dict)

@followed()
class CheckpointSaver:
    def __init__(
        self,
        model,
        optimizer,
        args=None,
        model_ema=None,
        amp_scaler=None,
        checkpoint_prefix="checkpoint",
        recovery_prefix="recovery",
        checkpoint_dir="",
        recovery_dir="",
        decreasing=False,
        max_history=10,
        unwrap_fn=unwrap_model,
    ):
        self.model = model
        self.optimizer = optimizer
        self.args = args
        self.model_ema = model_ema
        self.amp_scaler = amp_scaler
        self.checkpoint_dir = checkpoint_dir
        self.recovery_dir = recovery_dir
        self.unwrap_fn = unwrap_fn
        self.best_epoch = None
        self.best_metric = None
    def save_checkpoint(self, epoch, metric=None):
        self._save(os.path.join(self.checkpoint_dir, "last.pth.tar"), epoch, metric)
        self.best_epoch = epoch
        self.best_metric = metric
        return self.best_metric, self.best_epoch
    def save_recovery(self, epoch, batch_idx=0):
        self._save(os.path.join(self.recovery_dir, f"recovery-{epoch}-{batch_idx}.pth.tar"), epoch, None)
    def find_recovery(self) -> str: ...
    def _save(self, path, epoch, metric):
        state = {
            "epoch": epoch,
            "state_dict": get_state_dict(self.model, self.unwrap_fn),
            "optimizer": self.optimizer.state_dict(),
            "metric": metric,
        }
        torch.save(state, path)
