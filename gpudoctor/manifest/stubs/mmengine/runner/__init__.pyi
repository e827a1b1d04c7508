"""What the runner calls of a program."""

import torch
from mmengine.dataset import DefaultSampler
from mmengine.registry import DATASETS, HOOKS, MODELS
from torch.utils.data import DataLoader

from gpudoctor.manifest.effects import (
    GlobalRank,
    Setting,
    WorldSize,
    collective,
    followed,
    possibly,
    prepares,
    surely,
    written,
)

@followed()
class OptimWrapper:
    def __init__(self, optimizer, accumulative_counts=1, clip_grad=None):
        self.optimizer = optimizer
    def update_params(self, loss, **more):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

class Runner:
    rank: GlobalRank
    world_size: WorldSize
    def __getattr__(self, name) -> Setting: ...
    def __init__(
        self,
        model,
        work_dir=None,
        train_dataloader=None,
        val_dataloader=None,
        test_dataloader=None,
        train_cfg=None,
        val_cfg=None,
        test_cfg=None,
        auto_scale_lr=None,
        optim_wrapper=None,
        param_scheduler=None,
        val_evaluator=None,
        test_evaluator=None,
        default_hooks=None,
        custom_hooks=None,
        model_wrapper_cfg=None,
        find_unused_parameters=False,
        cfg=None,
        **more,
    ):
        # Settings that are read as a whole say it with all others.
        if surely("find_unused_parameters" in cfg):
            find_unused_parameters = cfg["find_unused_parameters"]
        self._searches = None if possibly(model_wrapper_cfg is not None) else find_unused_parameters
        self.work_dir = work_dir
        self.model = MODELS.build(model)
        self.train_dataloader = self._loader(train_dataloader)
        self.val_dataloader = self._loader(val_dataloader)
        self.test_dataloader = self._loader(test_dataloader)
        self.optim_wrapper = optim_wrapper
        made = [HOOKS.build(each) for each in custom_hooks or ()]
        # A hook of the library does nothing to what the program does.
        self.hooks = [each for each in made if possibly(each is not None)]
    def from_cfg(self, cfg):
        names = "work_dir", "train_dataloader", "val_dataloader", "test_dataloader", "optim_wrapper", "custom_hooks"
        more = "model_wrapper_cfg", "find_unused_parameters"
        # Another file may have more of them.
        self.__init__(cfg["model"], **{each: cfg[each] for each in (*names, *more) if surely(each in cfg)})
    def register_hook(self, hook, priority=None):
        self.hooks.append(hook)
    def train(self):
        model = self._prepare(self.model)
        if surely("optimizer" in self.optim_wrapper):
            # Settings: which optimizer it is, a registry says.
            self.optim_wrapper = OptimWrapper(torch.optim.SGD(self.model.parameters(), lr=0.1))
        self._tell("before_run")
        self._tell("before_train")
        for epoch in range(self.max_epochs):
            self.epoch = epoch
            if surely(hasattr(self.train_dataloader.sampler, "set_epoch")):
                self.train_dataloader.sampler.set_epoch(epoch)
            self._tell("before_train_epoch")
            model.train()
            for batch_idx, data_batch in enumerate(self.train_dataloader):
                self.iter = batch_idx
                self._tell("before_train_iter", batch_idx=batch_idx, data_batch=data_batch)
                if surely(self._searches is None) or written(self.model, "train_step"):
                    outputs = self.model.train_step(data_batch, optim_wrapper=self.optim_wrapper)
                else:
                    outputs = model(data_batch, mode="loss")
                    self.optim_wrapper.update_params(sum(outputs[each] for each in outputs if "loss" in each))
                self._tell("after_train_iter", batch_idx=batch_idx, data_batch=data_batch, outputs=outputs)
            self._tell("after_train_epoch")
            if possibly(self.val_dataloader is not None):
                self.val()
        self._tell("after_train")
        self._tell("after_run")
        return self.model
    # At its end the results of all ranks are put together.
    @collective(gathers=True)
    def val(self):
        self._tell("before_val")
        self._tell("before_val_epoch")
        self.model.eval()
        with torch.no_grad():
            for batch_idx, data_batch in enumerate(self.val_dataloader):
                self._tell("before_val_iter", batch_idx=batch_idx, data_batch=data_batch)
                outputs = self.model.val_step(data_batch)
                self._tell("after_val_iter", batch_idx=batch_idx, data_batch=data_batch, outputs=outputs)
        self._tell("after_val_epoch")
        self._tell("after_val")
    @collective(gathers=True)
    def test(self):
        self.model.eval()
        with torch.no_grad():
            for data_batch in self.test_dataloader:
                self.model.test_step(data_batch)
    def _loader(self, settings):
        if not surely("dataset" in settings):
            return settings
        given = {**settings}
        data, asked = DATASETS.build(given.pop("dataset")), given.pop("sampler", None)
        named = asked is not None and surely(asked["type"] == "DefaultSampler")
        sampler = DefaultSampler(data, asked.get("shuffle", True)) if named else asked
        return self._prepare(DataLoader(data, sampler=sampler, **given))
    @prepares(by_itself=True)
    def _prepare(self, given): ...
    def _tell(self, event, **more):
        for hook in self.hooks:
            getattr(hook, event)(self, **more)
