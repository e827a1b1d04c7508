"""Metrics of an engine, which add up what all ranks have counted at the end of each epoch."""

from ignite.engine import Events

from gpudoctor.manifest.effects import collective, followed

@followed()
class Metric:
    def __init__(self, *args, **more): ...
    def attach(self, engine, name, usage=None):
        engine.add_event_handler(Events.EPOCH_COMPLETED, self.completed, name)
    def completed(self, engine, name):
        engine.state.metrics[name] = self.compute()
    def reset(self) -> None: ...
    def update(self, output) -> None: ...
    @collective(gathers=True)
    def compute(self): ...

Accuracy = Average = ConfusionMatrix = EpochMetric = Loss = MeanAbsoluteError = MeanSquaredError = Metric
PSNR = Precision = ROC_AUC = Recall = RootMeanSquaredError = SSIM = TopKCategoricalAccuracy = Metric
