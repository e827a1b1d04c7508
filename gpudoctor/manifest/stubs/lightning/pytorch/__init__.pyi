"""Lightning's own loop: what it calls of a program, in its order."""

import torch
from lightning.fabric.strategies import _ddp_options, _shards
from lightning.pytorch.loggers import Logger
from lightning.pytorch.strategies import Strategy
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from gpudoctor.manifest.effects import (
    FirstRank,
    GlobalRank,
    LocalRank,
    Nodes,
    OwnGpu,
    Setting,
    WorldSize,
    backpropagates,
    collective,
    follows_loop,
    forward_of,
    held,
    installed_before,
    made_of,
    optimizers_in,
    optimizes_itself,
    possibly,
    prepares,
    runs_forward,
    saves,
    seeds,
    shows,
    surely,
    tell,
    told_by_name,
    written,
)

@seeds(of="torch cuda numpy python", by="seed")
def seed_everything(seed=None, workers=False, verbose=True): ...

class LightningModule:
    def optimizers(self, use_pl_optimizer=True):
        found = self.trainer.optimizers
        return found[0] if surely(len(found) == 1) else found
    def lr_schedulers(self) -> Setting: ...
    def backward(self, loss, *args, **more):
        loss.backward()
    def optimizer_step(self, epoch, batch_idx, optimizer, *args, **more):
        optimizer.step()
    def optimizer_zero_grad(self, epoch, batch_idx, optimizer, *args):
        optimizer.zero_grad()
    def toggle_optimizer(self, optimizer, *more) -> None: ...
    def untoggle_optimizer(self, optimizer, *more) -> None: ...
    def print(self, *given, **more) -> None: ...
    @collective(gathers=True, passes_gradients="sync_grads")
    def all_gather(self, data, group=None, sync_grads=False): ...
    @backpropagates(loss="loss")
    def manual_backward(self, loss, **more): ...
    @collective(sends="value", adds_up=True, asked_by="sync_dist")
    def log(self, name, value, *more, sync_dist=False, **others):
        if surely(not sync_dist):
            self._show(value)
    @collective(sends="dictionary", adds_up=True, asked_by="sync_dist")
    def log_dict(self, dictionary, *more, sync_dist=False, **others):
        if surely(not sync_dist):
            self._show(dictionary)
    @shows(averages=True)
    def _show(self, value): ...
    @runs_forward()
    def training_step(self, *args, **more): ...
    validation_step = test_step = predict_step = training_step

class Trainer:
    global_rank: GlobalRank
    local_rank: LocalRank
    world_size: WorldSize
    is_global_zero: FirstRank
    strategy: Strategy
    training_type_plugin: Strategy
    state: Setting
    current_epoch: Setting
    global_step: Setting
    callback_metrics: Setting
    logged_metrics: Setting
    progress_bar_metrics: Setting
    sanity_checking: Setting
    training: Setting
    validating: Setting
    testing: Setting
    predicting: Setting
    evaluating: Setting
    fast_dev_run: Setting
    num_nodes: Nodes
    num_devices: Setting
    max_epochs: Setting
    max_steps: Setting
    num_training_batches: Setting
    estimated_stepping_batches: Setting
    accumulate_grad_batches: Setting
    precision: Setting
    log_dir: Setting
    logger: Logger
    default_root_dir: Setting
    _gpu: OwnGpu
    _unknown: Setting
    def __init__(
        self, logger=None, *, accelerator="auto", strategy="auto", gpus=None, plugins=None, callbacks=None, **more
    ):
        self._place = self._gpu if surely(accelerator in ("auto", "gpu", "cuda")) else self._unknown
        # Version 2 takes no `gpus`. Before, DDP searched unless a plugin said otherwise, and nobody had asked for it.
        older = installed_before("lightning", 2) or possibly(gpus is not None) or possibly(plugins is not None)
        self._searches, self._static = _ddp_options(strategy, self._unknown if older else False)
        self._sharded = _shards(strategy)
        self.should_stop = False
        self.callbacks = [*callbacks] if surely(isinstance(callbacks, list)) else [callbacks]
    @saves(path="filepath", checkpoint=True, by_parts=True, waits=True)
    @collective(waits=True)
    def save_checkpoint(self, filepath, weights_only=False, **more): ...
    @prepares(by_itself=True)
    def _prepare(self, given): ...
    @shows(where_made=True)
    def _show(self, logged): ...

    # --- training ---

    @collective(waits=True, starts=True)
    def fit(
        self,
        model,
        train_dataloaders=None,
        val_dataloaders=None,
        datamodule=None,
        *more,
        train_dataloader=None,
        **others,
    ):
        # Before version 1.4 the argument had another name.
        given = train_dataloaders if possibly(train_dataloaders is not None) else train_dataloader
        if self._makes_loaders(given):
            # It may stand where the loaders do.
            datamodule, given = given, None
        self._connect(model, datamodule, "fit")
        model.to(self._place)
        self._wrapper = self._wrap(model)
        made = tell(model, "configure_optimizers")
        self.optimizers = optimizers_in(made)
        self._schedules = self._schedules_in(made)
        loader = self._loader(given, datamodule, model, "train_dataloader")
        evaluated = self._loader(val_dataloaders, datamodule, model, "val_dataloader")
        self._tell(model, "on_fit_start")
        self._tell(model, "on_train_start")
        model.train()
        for _epoch in range(self.current_epoch):
            self._tell(model, "on_train_epoch_start")
            if possibly(loader is not None):
                batches = zip(*loader, strict=False) if surely(isinstance(loader, (list, tuple))) else loader
                for batch_idx, batch in enumerate(batches):
                    self._step(model, batch, batch_idx)
                follows_loop(model, "training_step")
            if possibly(evaluated is not None):
                self._evaluate(model, evaluated, "validation")
                model.train()
            self._tell(model, "training_epoch_end", self.state)
            self._tell(model, "on_train_epoch_end")
            # All ranks collect what one of them writes.
            self._tell(model, "on_save_checkpoint", self.state)
            if self.should_stop:
                break
        self._tell(model, "on_train_end")
        self._tell(model, "on_fit_end")
    def _wrap(self, model):
        if surely(self._sharded):
            return FullyShardedDataParallel(model, device_id=self._place, use_orig_params=True)
        if surely(self._searches is None) or surely(self.world_size == 1):
            return None
        return DistributedDataParallel(
            model, device_ids=[self._place], find_unused_parameters=self._searches, static_graph=self._static
        )
    def _step(self, model, batch, batch_idx):
        self._tell(model, "on_train_batch_start", batch, batch_idx, 0)
        out, automatic = None, held(model, "automatic_optimization", True)
        if not automatic:
            optimizes_itself(model)
            out = self._ended(model, tell(model, "training_step", batch, batch_idx, 0))
        elif told_by_name(model, "training_step", "optimizer_idx"):
            # Before version 2: once for each optimizer.
            for index, optimizer in enumerate(self.optimizers):
                out = self._ended(model, forward_of(self._wrapper, model, "training_step", batch, batch_idx, index))
                self._optimize(model, out, [optimizer], batch_idx)
        else:
            out = self._ended(model, forward_of(self._wrapper, model, "training_step", batch, batch_idx, 0))
            self._optimize(model, out, self.optimizers, batch_idx)
        for told in self._schedules if automatic else []:
            # Those that go by batches.
            if surely(isinstance(told, dict)) and surely(told.get("interval", "epoch") == "step"):
                told["scheduler"].step()
        self._tell(model, "on_train_batch_end", out, batch, batch_idx, 0)
    def _schedules_in(self, made):
        if surely(isinstance(made, dict)):
            return [made["lr_scheduler"]] if surely("lr_scheduler" in made) else []
        lists = surely(isinstance(made, (list, tuple))) and surely(len(made) == 2)
        return made[1] if lists and surely(isinstance(made[1], list)) else []
    def _ended(self, model, out):
        # Before version 2: what it makes of the result is what is learnt from.
        return tell(model, "training_step_end", out) if written(model, "training_step_end") else out
    def _optimize(self, model, out, optimizers, batch_idx):
        loss = out["loss"] if surely(isinstance(out, dict)) else out
        # A rank that returns None goes on to the next batch.
        if possibly(loss is not None) and (not made_of(loss, None) or loss is not None):
            for optimizer in optimizers:
                self._tell(model, "on_before_zero_grad", optimizer)
                optimizer.zero_grad()
            self._tell(model, "on_before_backward", loss)
            if written(model, "backward"):
                model.backward(loss)
            else:
                loss.backward()
            self._tell(model, "on_after_backward")
            for optimizer in optimizers:
                self._tell(model, "on_before_optimizer_step", optimizer)
                if not written(model, "optimizer_step"):
                    optimizer.step()
                else:
                    model.optimizer_step(
                        epoch=self.current_epoch,
                        batch_idx=batch_idx,
                        optimizer=optimizer,
                        optimizer_idx=0,
                        optimizer_closure=lambda: loss,
                    )

    # --- evaluation ---

    @collective(waits=True, starts=True)
    def validate(self, model=None, dataloaders=None, *more, datamodule=None, val_dataloaders=None, **others):
        given = dataloaders if possibly(dataloaders is not None) else val_dataloaders
        self._evaluate_with(model, given, datamodule, "validate", "val_dataloader", "validation")
    @collective(waits=True, starts=True)
    def test(self, model=None, dataloaders=None, *more, datamodule=None, test_dataloaders=None, **others):
        given = dataloaders if possibly(dataloaders is not None) else test_dataloaders
        self._evaluate_with(model, given, datamodule, "test", "test_dataloader", "test")
    @collective(waits=True, starts=True)
    def predict(self, model=None, dataloaders=None, datamodule=None, **others):
        self._evaluate_with(model, dataloaders, datamodule, "predict", "predict_dataloader", "predict")
    def _evaluate_with(self, model, given, datamodule, stage, name, kind):
        if self._makes_loaders(given):
            datamodule, given = given, None
        self._connect(model, datamodule, stage)
        model.to(self._place)
        loader = self._loader(given, datamodule, model, name)
        if possibly(loader is not None):
            self._evaluate(model, loader, kind)
            follows_loop(model, f"{kind}_step")
    def _evaluate(self, model, loaders, kind):
        model.eval()
        several = surely(isinstance(loaders, (list, tuple)))
        outputs = []
        with torch.no_grad():
            self._tell(model, f"on_{kind}_start")
            self._tell(model, f"on_{kind}_epoch_start")
            for index, loader in enumerate(loaders if several else [loaders]):
                of_loader = []
                for batch_idx, batch in enumerate(loader):
                    self._tell(model, f"on_{kind}_batch_start", batch, batch_idx, index)
                    out = tell(model, f"{kind}_step", batch, batch_idx, index)
                    if written(model, f"{kind}_step_end"):
                        out = tell(model, f"{kind}_step_end", out)
                    of_loader.append(out)
                    self._tell(model, f"on_{kind}_batch_end", out, batch, batch_idx, index)
                outputs.append(of_loader)
            # Before version 2; old versions log what it returns.
            told = tell(model, f"{kind}_epoch_end", outputs if several else outputs[0])
            if surely(isinstance(told, dict)) and surely("log" in told):
                self._show(told["log"])
            self._tell(model, f"on_{kind}_epoch_end")
            self._tell(model, f"on_{kind}_end")

    # --- what it asks the program for ---

    def _makes_loaders(self, given):
        return (
            written(given, "train_dataloader")
            or written(given, "val_dataloader")
            or written(given, "test_dataloader")
            or written(given, "predict_dataloader")
        )
    def _connect(self, model, data, stage):
        model.trainer, model.logger = self, self.logger
        self.model = self.lightning_module = model
        self.datamodule = data
        if possibly(data is not None):
            data.trainer = self
        model.global_rank, model.local_rank = self.global_rank, self.local_rank
        model.current_epoch, model.global_step = self.current_epoch, self.global_step
        if written(model, "configure_callbacks"):
            self.callbacks = [*self.callbacks, *tell(model, "configure_callbacks")]
        # Before version 0.8 it is called before the processes are started, which get all that it assigns.
        if installed_before("lightning", 0, 8) or self.local_rank == 0:
            tell(data, "prepare_data")
            tell(model, "prepare_data")
        tell(data, "setup", stage)
        self._tell(model, "setup", stage)
        tell(model, "configure_model")
        tell(model, "configure_sharded_model")
    def _loader(self, given, data, model, name):
        if surely(given is None):
            given = tell(data, name) if written(data, name) else tell(model, name)
        if surely(isinstance(given, (list, tuple))):
            return [self._prepare(each) for each in given]
        return self._prepare(given)
    def _tell(self, model, hook, *given):
        for callback in self.callbacks:
            tell(callback, hook, self, model, *given)
        tell(model, hook, *given)
