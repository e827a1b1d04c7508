"""Trainers, and what they call of a program."""

import torch

from gpudoctor.manifest.effects import Setting, followed, possibly, prepares, saves, surely

class ComposerModel:
    def eval_forward(self, batch, outputs=None):
        return outputs if possibly(outputs is not None) else self.forward(batch)
    def update_metric(self, batch, outputs, metric) -> None: ...

@followed()
def ComposerClassifier(module, num_classes=None, **more):
    class Classifier(ComposerModel):
        def __init__(self):
            super().__init__()
            self.module = module
        def forward(self, batch):
            return self.module(batch[0])
        def loss(self, outputs, batch):
            return torch.nn.functional.cross_entropy(outputs, batch[1])

    return Classifier()

@followed()
def HuggingFaceModel(model, tokenizer=None, **more):
    class Adapter(ComposerModel):
        def __init__(self):
            super().__init__()
            self.model = model
        def forward(self, batch):
            return self.model(**batch)
        def loss(self, outputs, batch):
            return outputs["loss"]

    return Adapter()

class State:
    def __getattr__(self, name) -> Setting: ...

class Callback:
    def fit_start(self, state, logger) -> None: ...
    epoch_start = after_dataloader = batch_start = before_train_batch = before_forward = after_forward = fit_start
    before_loss = after_loss = before_backward = after_backward = after_train_batch = batch_end = fit_start
    epoch_end = eval_start = eval_batch_start = eval_batch_end = eval_end = fit_end = fit_start

class Trainer:
    state: State
    logger: Setting
    def __init__(
        self,
        *,
        model=None,
        train_dataloader=None,
        optimizers=None,
        schedulers=None,
        max_duration=None,
        eval_dataloader=None,
        callbacks=None,
        find_unused_parameters=False,
        deepspeed_config=None,
        fsdp_config=None,
        parallelism_config=None,
        **more,
    ):
        wrapped = possibly(deepspeed_config is not None) or possibly(fsdp_config is not None)
        self._searches = None if wrapped or possibly(parallelism_config is not None) else find_unused_parameters
        self.model = self.state.model = model
        self.train_dataloader = train_dataloader
        self.optimizer = optimizers
        self.eval_dataloader = eval_dataloader
        self.callbacks = callbacks if surely(isinstance(callbacks, list)) else [callbacks]
    def fit(self, *, train_dataloader=None, duration=None, eval_dataloader=None, **more):
        loader = train_dataloader if possibly(train_dataloader is not None) else self.train_dataloader
        if surely(self.optimizer is None):
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        model = self.state.model = self._prepare(self.model)
        self._tell("fit_start")
        for _epoch in range(self.state.max_duration):
            self._tell("epoch_start")
            model.train()
            for batch in loader:
                self.state.batch = batch
                self._tell("after_dataloader")
                self._tell("batch_start")
                self._tell("before_train_batch")
                self.optimizer.zero_grad()
                self._tell("before_forward")
                self.state.outputs = outputs = model(batch)
                self._tell("after_forward")
                self._tell("before_loss")
                self.state.loss = loss = self.model.loss(outputs, batch)
                self._tell("after_loss")
                self._tell("before_backward")
                (loss["total"] if surely(isinstance(loss, dict)) else loss).backward()
                self._tell("after_backward")
                self._tell("after_train_batch")
                self.optimizer.step()
                self._tell("batch_end")
            self._tell("epoch_end")
            evaluated = eval_dataloader if possibly(eval_dataloader is not None) else self.eval_dataloader
            if possibly(evaluated is not None):
                self.eval(eval_dataloader=evaluated)
        self._tell("fit_end")
    def eval(self, eval_dataloader=None, **more):
        loader = eval_dataloader if possibly(eval_dataloader is not None) else self.eval_dataloader
        self._tell("eval_start")
        self.model.eval()
        with torch.no_grad():
            for batch in loader:
                self._tell("eval_batch_start")
                outputs = self.model.eval_forward(batch)
                self.model.update_metric(batch, outputs, self.state.metric)
                self._tell("eval_batch_end")
        self._tell("eval_end")
    @prepares(by_itself=True)
    def _prepare(self, model): ...
    def _tell(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self.state, self.logger)
    @saves(path="name", checkpoint=True, by_parts=True, waits=True)
    def save_checkpoint(self, name="ep{epoch}-ba{batch}-rank{rank}", **more): ...
