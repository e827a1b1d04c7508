"""What an engine calls, and when."""

import torch

from gpudoctor.manifest.effects import Setting, as_taken, calls_of, followed, made_of, possibly, surely

class Events:
    STARTED: Setting
    EPOCH_STARTED: Setting
    GET_BATCH_STARTED: Setting
    GET_BATCH_COMPLETED: Setting
    ITERATION_STARTED: Setting
    ITERATION_COMPLETED: Setting
    EPOCH_COMPLETED: Setting
    COMPLETED: Setting

class State:
    def __getattr__(self, name) -> Setting: ...

@followed()
class Engine:
    state: State
    def __init__(self, process_function):
        self._process_function = process_function
        self._handlers = []
    def add_event_handler(self, event_name, handler, *args, **more):
        self._handlers.append((event_name, handler, args, more))
    def on(self, event_name, *args, **more):
        def add(handler):
            self.add_event_handler(event_name, handler, *args, **more)
            return handler
        return add
    def run(self, data=None, max_epochs=None, epoch_length=None, **more):
        self.state.dataloader = data
        self._fire(Events.STARTED, 0)
        # `run(loader, **settings)`
        for epoch in range(1 if surely(max_epochs is None) else max_epochs):
            self.state.epoch = epoch
            self._fire(Events.EPOCH_STARTED, epoch)
            for count, batch in enumerate(data):
                self.state.iteration = count + 1
                self._fire(Events.GET_BATCH_STARTED, count)
                self.state.batch = batch
                self._fire(Events.GET_BATCH_COMPLETED, count)
                self._fire(Events.ITERATION_STARTED, count)
                self.state.output = self._process_function(self, batch)
                self._fire(Events.ITERATION_COMPLETED, count)
            self._fire(Events.EPOCH_COMPLETED, epoch)
        self._fire(Events.COMPLETED, 0)
        return self.state
    def _fire(self, event, count):
        for asked, handler, args, more in self._handlers:
            if made_of(asked, event) or (calls_of(asked, event) and count % self.state.every == 0):
                as_taken(handler, self, *args, **more)
    def terminate(self) -> None: ...

@followed()
def supervised_training_step(
    model,
    optimizer,
    loss_fn,
    device=None,
    non_blocking=False,
    prepare_batch=None,
    model_transform=None,
    output_transform=None,
    gradient_accumulation_steps=1,
    **more,
):
    def update(engine, batch):
        optimizer.zero_grad()
        model.train()
        if possibly(prepare_batch is not None):
            x, y = prepare_batch(batch, device=device, non_blocking=non_blocking)
        else:
            x, y = batch[0].to(device), batch[1].to(device)
        output = model(x)
        if possibly(model_transform is not None):
            output = model_transform(output)
        loss = loss_fn(output, y)
        loss.backward()
        optimizer.step()
        if possibly(output_transform is not None):
            return output_transform(x, y, output, loss)
        return loss.detach()
    return update

@followed()
def supervised_evaluation_step(
    model, device=None, non_blocking=False, prepare_batch=None, model_transform=None, output_transform=None, **more
):
    def evaluate(engine, batch):
        model.eval()
        with torch.no_grad():
            if possibly(prepare_batch is not None):
                x, y = prepare_batch(batch, device=device, non_blocking=non_blocking)
            else:
                x, y = batch[0].to(device), batch[1].to(device)
            output = model(x)
            if possibly(model_transform is not None):
                output = model_transform(output)
            if possibly(output_transform is not None):
                return output_transform(x, y, output)
            return output, y
    return evaluate

@followed()
def create_supervised_trainer(
    model,
    optimizer,
    loss_fn,
    device=None,
    non_blocking=False,
    prepare_batch=None,
    model_transform=None,
    output_transform=None,
    **more,
):
    return Engine(
        supervised_training_step(
            model, optimizer, loss_fn, device, non_blocking, prepare_batch, model_transform, output_transform
        )
    )

@followed()
def create_supervised_evaluator(
    model,
    metrics=None,
    device=None,
    non_blocking=False,
    prepare_batch=None,
    model_transform=None,
    output_transform=None,
    **more,
):
    evaluator = Engine(
        supervised_evaluation_step(model, device, non_blocking, prepare_batch, model_transform, output_transform)
    )
    for name, metric in metrics.items() if surely(isinstance(metrics, dict)) else ():
        metric.attach(evaluator, name)
    return evaluator
