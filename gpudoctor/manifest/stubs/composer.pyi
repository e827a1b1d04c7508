"""Trainers."""

from gpudoctor.manifest.effects import Setting, saves

class Trainer:
    state: Setting
    @saves(path="name", checkpoint=True, by_parts=True)
    def save_checkpoint(self, name="ep{epoch}-ba{batch}-rank{rank}", **more): ...
