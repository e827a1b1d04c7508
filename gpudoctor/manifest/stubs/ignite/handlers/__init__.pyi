"""What is attached to an engine: it leaves models and optimizers as they are, and writes on rank 0."""

from gpudoctor.manifest.effects import followed, starts_logger

@followed()
class ParamScheduler:
    def __init__(self, optimizer, param_name, *more, **others): ...
    def attach(self, engine, event=None, usage=None) -> None: ...
    def __call__(self, engine, name=None) -> None: ...

@followed()
class CosineAnnealingScheduler(ParamScheduler): ...

@followed()
class LinearCyclicalScheduler(ParamScheduler): ...

@followed()
class PiecewiseLinear(ParamScheduler): ...

@followed()
class LRScheduler:
    def __init__(self, lr_scheduler, *more, **others):
        self.lr_scheduler = lr_scheduler
    def __call__(self, engine, name=None):
        self.lr_scheduler.step()

@followed()
class Checkpoint:
    def __init__(self, to_save, save_handler, *more, **others): ...
    def __call__(self, engine) -> None: ...
    @staticmethod
    def load_objects(to_load, checkpoint, **more) -> None: ...

@followed()
class ModelCheckpoint:
    def __init__(self, dirname, *more, **others): ...
    def __call__(self, engine, to_save=None) -> None: ...

@followed()
class EarlyStopping:
    def __init__(self, patience, score_function, trainer, *more, **others):
        self.score_function = score_function
    def __call__(self, engine):
        self.score_function(engine)

@followed()
class TerminateOnNan:
    def __init__(self, *more, **others): ...
    def __call__(self, engine) -> None: ...

@followed()
class OptimizerParamsHandler:
    def __init__(self, optimizer, *more, **others): ...
    def __call__(self, engine, logger=None, event_name=None) -> None: ...

class TensorboardLogger:
    @starts_logger(adds_file=True)
    def __init__(self, *args, **more): ...

class WandBLogger:
    @starts_logger(mode="mode", shared_by="group | settings")
    def __init__(self, *args, mode=None, group=None, settings=None, **more): ...
