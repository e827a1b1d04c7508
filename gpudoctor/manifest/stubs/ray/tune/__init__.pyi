"""Ray Tune: trials of one training, each by workers of its own, or by a function in one process."""

from gpudoctor.manifest.effects import as_taken, followed, surely

@followed()
class Tuner:
    def __init__(self, trainable=None, *, param_space=None, tune_config=None, run_config=None):
        self.trainable = trainable
        self.param_space = param_space
    def fit(self):
        if surely(callable(self.trainable)):
            as_taken(self.trainable, self.param_space)
        else:
            self.trainable.fit()
        return ResultGrid()

class ResultGrid: ...
