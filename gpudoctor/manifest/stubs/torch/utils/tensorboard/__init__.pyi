"""The log of TensorBoard."""

from gpudoctor.manifest.effects import starts_logger

class SummaryWriter:
    @starts_logger(adds_file=True)
    def __init__(self, log_dir=None, **more): ...
