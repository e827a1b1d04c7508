"""Settings of DeepSpeed's file that a framework is told as well, and how they must agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpudoctor.api.pack import EngineUser, ProgramFacts, ProgramStart, SettingsFile

OF_TRAINER = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "fp16.enabled": "fp16",
    "bf16.enabled": "bf16",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.weight_decay": "weight_decay",
}
"""What `TrainingArguments` calls the settings of DeepSpeed that it compares with its own: they are `auto`, or equal."""
_LEFT_OUT: Mapping[str, object] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "fp16": False,
    "bf16": False,
}
"""What it is where it is left out, in versions 4 and 5."""
_INSTEAD = {"per_device_train_batch_size": "auto_find_batch_size", "fp16": "fp16_full_eval", "bf16": "bf16_full_eval"}
"""What else decides about a setting."""
OF_ENGINE_ALONE = (
    *(f"deepspeed_config.{name}" for name in ("gradient_accumulation_steps", "gradient_clipping", "zero_stage")),
    *(f"deepspeed_config.offload_{name}" for name in ("optimizer_device", "param_device", "param_nvme_path")),
    *(f"deepspeed_config.{name}" for name in ("offload_optimizer_nvme_path", "zero3_save_16bit_model")),
    "mixed_precision",
)
"""What the settings of accelerate may not say beside a file that configures DeepSpeed."""


def disagreeing(file: SettingsFile, told: Mapping[str, object]) -> Iterator[tuple[str, str, object]]:
    """The settings of a file that do not agree with what a Trainer is told, each with the Trainer's name and value."""
    for key, name in OF_TRAINER.items():
        written = file.values.get(key)
        if written is None or told.get(name) is None or _INSTEAD.get(name) in told:
            continue
        said = _plain(written.text)
        if said is not None and said != told[name]:
            yield key, name, told[name]


def told_by(user: EngineUser) -> Mapping[str, object]:
    """What a program tells the Trainer, with what it is where it is left out."""
    given = dict(user.settings)
    # Trainers of other libraries begin with values of their own.
    usual = user.whole and user.made_by.endswith(("transformers.TrainingArguments", "Seq2SeqTrainingArguments"))
    return {**_LEFT_OUT, **given} if usual else given


def told_on_line(given: Mapping[str, object]) -> Mapping[str, object]:
    """What a command line tells it, by the names of the settings."""
    found: dict[str, object] = {}
    for name in (*OF_TRAINER.values(), *_INSTEAD.values()):
        value = given.get(name.replace("_", "-"))
        plain = _plain(value) if isinstance(value, str) else value
        if plain is not None:
            found[name] = plain
    return found


def told_by_command(launch: ProgramStart, facts: ProgramFacts) -> Mapping[str, object]:
    """What a launch tells the Trainer, with what it is where a complete command leaves it out."""
    told = told_on_line(launch.given)
    # Options of the program's own are not those of the Trainer.
    parsed = "deepspeed" in launch.given and "deepspeed" not in facts.options
    if not parsed or any(word.open for word in launch.arguments):
        return told
    usual = {name: value for name, value in _LEFT_OUT.items() if name.replace("_", "-") not in facts.options}
    return {**usual, **told}


def whole_batch(launch: ProgramStart) -> int | None:
    """The batch of all processes together, by what the command line tells the Trainer; None where that is not known."""
    told, count = told_on_line(launch.given), launch.world_size
    each, steps = told.get("per_device_train_batch_size"), told.get("gradient_accumulation_steps", 1.0)
    left_out = any(word.open for word in launch.arguments) or "auto_find_batch_size" in told
    if left_out or count is None or not isinstance(each, float) or not isinstance(steps, float):
        return None
    return int(each * steps) * count


def _plain(text: str) -> object:
    """The number or the switch that is written; None for anything else, `auto` among it."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return None
