"""What a metric of a program's own gets from its base: it puts together what all ranks have counted."""

from torchmetrics._all_ranks import compute

from gpudoctor.manifest.effects import possibly

class Metric:
    def __init__(self, *, sync_on_compute=True, **more):
        self._own_compute = self.compute
        if possibly(sync_on_compute):
            self.compute = self._compute_of_all
    def __call__(self, *given, **more):
        self.update(*given, **more)
        return self._own_compute()
    def to(self, *given, **more):
        return self
    cuda = cpu = train = eval = to
    def _compute_of_all(self):
        return compute(self._own_compute())
