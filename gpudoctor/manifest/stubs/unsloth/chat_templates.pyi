"""What a Trainer counts of a conversation."""

from gpudoctor.manifest.effects import gives_back

@gives_back(given="trainer")
def train_on_responses_only(trainer, **more): ...
