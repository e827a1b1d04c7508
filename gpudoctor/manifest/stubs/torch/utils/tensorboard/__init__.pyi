"""The log of TensorBoard."""

from gpudoctor.manifest.effects import starts_logger

class SummaryWriter:
    @starts_logger(path="log_dir")
    def __init__(self, log_dir=None, **more): ...
