"""The log of TensorBoard, without it."""

from gpudoctor.manifest.effects import starts_logger

class SummaryWriter:
    @starts_logger(adds_file=True)
    def __init__(self, logdir=None, **more): ...
