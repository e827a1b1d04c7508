"""Trainers."""

from gpudoctor.manifest.effects import Setting, saves, shows

class Trainer:
    state: Setting
    @saves(path="output_dir", checkpoint=True, by_parts=True)
    def save_model(self, output_dir=None, _internal_call=False): ...
    @shows()
    def log(self, logs, **more): ...

def HfArgumentParser(dataclass_types=None, **more) -> Setting: ...

class Seq2SeqTrainer(Trainer): ...
