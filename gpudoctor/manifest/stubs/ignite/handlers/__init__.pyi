"""What is attached to an engine: it leaves models and optimizers as they are, and writes on rank 0."""

from gpudoctor.manifest.effects import followed, starts_logger

@followed()
class Checkpoint:
    def __init__(self, *args, **more): ...
    def __call__(self, engine, *args, **more) -> None: ...
    @staticmethod
    def load_objects(to_load, checkpoint, **more) -> None: ...

ModelCheckpoint = OptimizerParamsHandler = TerminateOnNan = Checkpoint
CosineAnnealingScheduler = LinearCyclicalScheduler = ParamScheduler = PiecewiseLinear = Checkpoint

@followed()
class LRScheduler:
    def __init__(self, lr_scheduler, *args, **more):
        self.lr_scheduler = lr_scheduler
    def __call__(self, engine, name=None):
        self.lr_scheduler.step()

@followed()
class EarlyStopping:
    def __init__(self, patience, score_function, trainer, *args, **more):
        self.score_function = score_function
    def __call__(self, engine):
        self.score_function(engine)

class TensorboardLogger:
    @starts_logger(adds_file=True)
    def __init__(self, *args, **more): ...

class WandBLogger:
    @starts_logger(mode="mode", shared_by="group | settings")
    def __init__(self, *args, mode=None, group=None, settings=None, **more): ...

@followed()
class FastaiLRFinder:
    # What the block of `with` is given is the trainer itself.
    def attach(self, trainer, to_save, *args, **more):
        return trainer
