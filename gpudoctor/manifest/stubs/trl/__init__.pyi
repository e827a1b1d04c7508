"""Trainers for what comes after pre-training: all of them are that of Transformers."""

from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from gpudoctor.manifest.effects import surely

SFTConfig = DPOConfig = RewardConfig = KTOConfig = GRPOConfig = ORPOConfig = CPOConfig = TrainingArguments

class SFTTrainer(Trainer):
    def __init__(
        self,
        model=None,
        args=None,
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        compute_loss_func=None,
        compute_metrics=None,
        callbacks=None,
        optimizers=(None, None),
        preprocess_logits_for_metrics=None,
        tokenizer=None,
        model_init=None,
        **more,
    ):
        self._begin(
            AutoModelForCausalLM.from_pretrained(model) if surely(isinstance(model, str)) else model,
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

class RewardTrainer(SFTTrainer): ...

class DPOTrainer(Trainer):
    def __init__(
        self,
        model=None,
        ref_model=None,
        args=None,
        data_collator=None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        compute_metrics=None,
        callbacks=None,
        optimizers=(None, None),
        preprocess_logits_for_metrics=None,
        tokenizer=None,
        model_init=None,
        **more,
    ):
        self.ref_model = ref_model
        self._begin(
            AutoModelForCausalLM.from_pretrained(model) if surely(isinstance(model, str)) else model,
            args,
            data_collator,
            train_dataset,
            eval_dataset,
            processing_class or tokenizer,
            model_init,
            None,
            compute_metrics,
            callbacks,
            optimizers,
            preprocess_logits_for_metrics,
        )

class KTOTrainer(DPOTrainer): ...
class ORPOTrainer(SFTTrainer): ...
class CPOTrainer(SFTTrainer): ...

class GRPOTrainer(Trainer):
    def __init__(
        self,
        model,
        reward_funcs=None,
        args=None,
        train_dataset=None,
        eval_dataset=None,
        processing_class=None,
        reward_processing_classes=None,
        callbacks=None,
        optimizers=(None, None),
        **more,
    ):
        self.reward_funcs = reward_funcs if surely(isinstance(reward_funcs, list)) else [reward_funcs]
        self._begin(
            AutoModelForCausalLM.from_pretrained(model) if surely(isinstance(model, str)) else model,
            args,
            None,
            train_dataset,
            eval_dataset,
            processing_class,
            None,
            None,
            None,
            callbacks,
            optimizers,
        )
    def _prepare_inputs(self, inputs):
        completions = self.model.generate(inputs)
        for reward in self.reward_funcs:
            reward(prompts=inputs, completions=completions)
        return completions
