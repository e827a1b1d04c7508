"""Trainers, and what they call of a program."""

import torch
from accelerate import Accelerator

from gpudoctor.manifest.effects import (
    FirstRank,
    GlobalRank,
    LocalRank,
    OwnGpu,
    Setting,
    WorldSize,
    collective,
    configures,
    goes_by,
    installed_before,
    opens,
    own_loss,
    possibly,
    schedules,
    seeds,
    shows,
    surely,
    written,
)

@schedules()
def get_constant_schedule(optimizer, last_epoch=-1): ...
@schedules()
def get_constant_schedule_with_warmup(optimizer, num_warmup_steps, last_epoch=-1): ...
@schedules()
def get_cosine_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, num_cycles=0.5, last_epoch=-1): ...
@schedules()
def get_cosine_with_hard_restarts_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, **more): ...
@schedules()
def get_cosine_with_min_lr_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, **more): ...
@schedules()
def get_inverse_sqrt_schedule(optimizer, num_warmup_steps, timescale=None, last_epoch=-1): ...
@schedules()
def get_linear_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, last_epoch=-1): ...
@schedules()
def get_polynomial_decay_schedule_with_warmup(optimizer, num_warmup_steps, num_training_steps, **more): ...
@schedules()
def get_reduce_on_plateau_schedule(optimizer, **more): ...
@schedules()
def get_scheduler(name, optimizer, num_warmup_steps=None, num_training_steps=None, **more): ...
@schedules()
def get_wsd_schedule(optimizer, num_warmup_steps, num_decay_steps, **more): ...
@seeds(of="torch cuda numpy python", by="seed")
def set_seed(seed, deterministic=False): ...

class AutoModelForCausalLM:
    @classmethod
    def from_pretrained(cls, name, **more): ...

class TrainingArguments:
    process_index: GlobalRank
    local_process_index: LocalRank
    local_rank: LocalRank
    world_size: WorldSize
    device: OwnGpu
    should_save: FirstRank
    should_log: FirstRank
    @configures(spreading="deepspeed | fsdp | parallelism_config")
    def __init__(self, output_dir=None, *, deepspeed=None, fsdp=None, parallelism_config=None, **more): ...
    def __getattr__(self, name) -> Setting: ...
    @opens()
    def main_process_first(self, local=True, desc="work"): ...

class Seq2SeqTrainingArguments(TrainingArguments): ...

class HfArgumentParser:
    def __init__(self, dataclass_types=None, **more):
        self.dataclass_types = dataclass_types

class TrainerCallback:
    def on_init_end(self, args, state, control, **more) -> None: ...
    on_train_begin = on_train_end = on_epoch_begin = on_epoch_end = on_step_begin = on_init_end
    on_pre_optimizer_step = on_optimizer_step = on_substep_end = on_step_end = on_evaluate = on_predict = on_init_end
    on_save = on_log = on_prediction_step = on_init_end

class EvalPrediction:
    def __init__(self, predictions, label_ids, inputs=None, losses=None): ...

class TrainerState:
    is_world_process_zero: FirstRank
    is_local_process_zero: FirstRank
    def __getattr__(self, name) -> Setting: ...

class Trainer:
    accelerator: Accelerator
    state: TrainerState
    control: Setting
    def __init__(
        self,
        model=None,
        args=None,
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        model_init=None,
        compute_loss_func=None,
        compute_metrics=None,
        callbacks=None,
        optimizers=(None, None),
        optimizer_cls_and_kwargs=None,
        preprocess_logits_for_metrics=None,
        tokenizer=None,
    ):
        self._begin(
            model,
            args,
            data_collator,
            train_dataset,
            eval_dataset,
            processing_class or tokenizer,
            model_init,
            compute_loss_func,
            compute_metrics,
            callbacks,
            optimizers,
            preprocess_logits_for_metrics,
        )
    def _begin(
        self,
        model,
        args=None,
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        model_init=None,
        compute_loss_func=None,
        compute_metrics=None,
        callbacks=None,
        optimizers=(None, None),
        preprocess_logits_for_metrics=None,
    ):
        self.args = args if possibly(args is not None) else TrainingArguments()
        self.model_init = model_init
        self.model = model if possibly(model is not None) else model_init()
        self.data_collator = data_collator
        self.train_dataset = train_dataset
        self.eval_dataset = eval_dataset
        self.processing_class = self.tokenizer = processing_class
        self.compute_loss_func = compute_loss_func
        self.compute_metrics = compute_metrics
        self.preprocess_logits_for_metrics = preprocess_logits_for_metrics
        self.callbacks = [*(callbacks or ())]
        self.optimizer, self.lr_scheduler = optimizers
        self.model = self.model_wrapped = self.model.to(self.args.device)
        self.is_in_train = False
        self._tell("on_init_end")
    def add_callback(self, callback):
        self.callbacks.append(callback() if surely(isinstance(callback, type)) else callback)
    def call_model_init(self, trial=None):
        return self.model_init()
    def is_world_process_zero(self) -> FirstRank: ...
    def is_local_process_zero(self) -> FirstRank: ...

    # --- what it makes ---

    def get_train_dataloader(self):
        return self._loader(self.train_dataset, True)
    def get_eval_dataloader(self, eval_dataset=None):
        return self._loader(eval_dataset if possibly(eval_dataset is not None) else self.eval_dataset, False)
    def get_test_dataloader(self, test_dataset):
        return self._loader(test_dataset, False)
    def _get_train_sampler(self, train_dataset=None) -> None: ...
    def _loader(self, dataset, shuffle):
        stream = surely(isinstance(dataset, torch.utils.data.IterableDataset))
        sampler = self._get_train_sampler() if shuffle and not stream else None
        loader = torch.utils.data.DataLoader(
            dataset,
            batch_size=self.args.train_batch_size,
            sampler=sampler,
            shuffle=shuffle and not stream and surely(sampler is None),
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            pin_memory=self.args.dataloader_pin_memory,
            drop_last=self.args.dataloader_drop_last,
        )
        return self.accelerator.prepare(loader)
    def create_optimizer_and_scheduler(self, num_training_steps):
        self.create_optimizer()
        self.create_scheduler(num_training_steps=num_training_steps, optimizer=self.optimizer)
    def create_optimizer(self, model=None):
        if surely(self.optimizer is None):
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.args.learning_rate)
        return self.optimizer
    def create_scheduler(self, num_training_steps, optimizer=None):
        if surely(self.lr_scheduler is None):
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.args.lr_scheduler_kwargs)
        return self.lr_scheduler

    # --- training ---

    @collective(waits=True)
    def train(self, resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None, **more):
        self.is_in_train = True
        if possibly(self.model_init is not None):
            self.model = self.model_wrapped = self.call_model_init(trial).to(self.args.device)
        return self._inner_training_loop(
            self.args.train_batch_size, self.args, resume_from_checkpoint, trial, ignore_keys_for_eval
        )
    def _inner_training_loop(
        self, batch_size=None, args=None, resume_from_checkpoint=None, trial=None, ignore_keys_for_eval=None
    ):
        train_dataloader = self.get_train_dataloader()
        self.create_optimizer_and_scheduler(num_training_steps=self.state.max_steps)
        goes_by(self.accelerator, self.args)
        model, self.optimizer = self.accelerator.prepare(self.model, self.optimizer)
        self.model_wrapped = model
        model.zero_grad()
        self._tell("on_train_begin", train_dataloader=train_dataloader)
        for epoch in range(self.args.num_train_epochs):
            self.state.epoch = epoch
            self._tell("on_epoch_begin", train_dataloader=train_dataloader)
            for _step, inputs in enumerate(train_dataloader):
                self._tell("on_step_begin", train_dataloader=train_dataloader)
                tr_loss = self.training_step(model, inputs, self.state.num_input_tokens_seen)
                self.accelerator.clip_grad_norm_(model.parameters(), self.args.max_grad_norm)
                self._tell("on_pre_optimizer_step", train_dataloader=train_dataloader)
                self.optimizer.step()
                self._tell("on_optimizer_step", train_dataloader=train_dataloader)
                self.lr_scheduler.step()
                model.zero_grad()
                self._tell("on_step_end", train_dataloader=train_dataloader)
                self.log({"loss": self.accelerator.reduce(tr_loss, "mean")})
            self._tell("on_epoch_end", train_dataloader=train_dataloader)
            self._maybe_log_save_evaluate(
                tr_loss, self.state.grad_norm, model, trial, epoch, ignore_keys_for_eval, self.state.start_time
            )
        self._tell("on_train_end", train_dataloader=train_dataloader)
    def _maybe_log_save_evaluate(
        self, tr_loss, grad_norm, model, trial, epoch, ignore_keys_for_eval, start_time, learning_rate=None
    ):
        if possibly(self.eval_dataset is not None) and possibly(self.args.eval_strategy != "no"):
            self.evaluate(ignore_keys=ignore_keys_for_eval)
        if possibly(self.args.save_strategy != "no"):
            self._save_checkpoint(model, trial)
            self._tell("on_save")
    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        inputs = self._prepare_inputs(inputs)
        loss = self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        if not (written(self, "loss_is_scaled_for_ga") or written(self, "model_accepts_loss_kwargs")):
            steps = self.args.gradient_accumulation_steps
            # Before version 5 no `forward` but those of language models takes what goes on to the loss.
            older = installed_before("transformers", 5)
            own_loss(self, "compute_loss", "num_items_in_batch", loss, self.model, steps, older)
        self.accelerator.backward(loss / self.args.gradient_accumulation_steps)
        return loss.detach()
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        if possibly(self.compute_loss_func is not None):
            loss = self.compute_loss_func(outputs, inputs["labels"], num_items_in_batch=num_items_in_batch)
        elif surely(isinstance(outputs, dict)):
            loss = outputs["loss"]
        elif surely(isinstance(outputs, tuple)):
            loss = outputs[0]
        else:
            loss = outputs.loss
        return (loss, outputs) if return_outputs else loss
    def _prepare_inputs(self, inputs):
        if surely(isinstance(inputs, dict)):
            return {name: value.to(self.args.device) for name, value in inputs.items()}
        return inputs.to(self.args.device)
    def _tell(self, event, **more):
        for callback in self.callbacks:
            getattr(callback, event)(
                self.args,
                self.state,
                self.control,
                model=self.model,
                processing_class=self.processing_class,
                tokenizer=self.tokenizer,
                optimizer=self.optimizer,
                lr_scheduler=self.lr_scheduler,
                **more,
            )

    # --- evaluation ---

    @collective(waits=True)
    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval"):
        loader = self.get_eval_dataloader(eval_dataset)
        output = self.evaluation_loop(
            loader,
            description="Evaluation",
            prediction_loss_only=None,
            ignore_keys=ignore_keys,
            metric_key_prefix=metric_key_prefix,
        )
        self.log(output.metrics)
        self._tell("on_evaluate", metrics=output.metrics, eval_dataloader=loader)
        return output.metrics
    @collective(waits=True)
    def predict(self, test_dataset, ignore_keys=None, metric_key_prefix="test"):
        loader = self.get_test_dataloader(test_dataset)
        output = self.evaluation_loop(
            loader, description="Prediction", ignore_keys=ignore_keys, metric_key_prefix=metric_key_prefix
        )
        self._tell("on_predict", metrics=output.metrics, eval_dataloader=loader)
        return output
    def evaluation_loop(
        self, dataloader, description, prediction_loss_only=None, ignore_keys=None, metric_key_prefix="eval"
    ):
        # That of one process: who evaluates asks the others only for what they have predicted.
        model = self.model
        model.eval()
        for _step, inputs in enumerate(dataloader):
            loss, logits, labels = self.prediction_step(model, inputs, prediction_loss_only, ignore_keys=ignore_keys)
            if possibly(self.preprocess_logits_for_metrics is not None):
                logits = self.preprocess_logits_for_metrics(logits, labels)
            loss, logits, labels = self.accelerator.gather_for_metrics((loss, logits, labels))
            self._tell("on_prediction_step", eval_dataloader=dataloader)
        metrics = None
        if possibly(self.compute_metrics is not None):
            metrics = self.compute_metrics(EvalPrediction(predictions=logits, label_ids=labels))
        return _evaluated(predictions=logits, label_ids=labels, metrics=metrics)
    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad():
            loss, outputs = self.compute_loss(model, inputs, return_outputs=True)
        return loss.detach(), outputs[1], inputs["labels"]

    # --- what it keeps and shows ---

    def _save_checkpoint(self, model, trial):
        self.save_model(self.args.output_dir, _internal_call=True)
    def save_model(self, output_dir=None, _internal_call=False):
        self.accelerator.save_model(self.model, output_dir)
        if self.args.should_save:
            self._save(output_dir)
    def _save(self, output_dir=None, state_dict=None) -> None: ...
    def save_state(self) -> None: ...
    def save_metrics(self, split, metrics, combined=True) -> None: ...
    def log_metrics(self, split, metrics) -> None: ...
    @shows()
    def log(self, logs, start_time=None, **more):
        self._tell("on_log", logs=logs)

def _evaluated(**more): ...

class Seq2SeqTrainer(Trainer): ...
