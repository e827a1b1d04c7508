"""Loggers, of which only that of rank 0 records anything."""

from gpudoctor.manifest.effects import GlobalRank, Setting, shows

class _Experiment:
    rank: GlobalRank
    def __getattr__(self, name) -> Setting: ...
    def log(self, data, *more, **others):
        if self.rank == 0:
            self._show(data)
    def add_scalar(self, tag, scalar_value, *more, **others):
        if self.rank == 0:
            self._show(scalar_value)
    def add_scalars(self, main_tag, tag_scalar_dict, *more, **others):
        if self.rank == 0:
            self._show(tag_scalar_dict)
    def add_audio(self, *given, **more) -> None: ...
    add_figure = add_histogram = add_image = add_images = add_text = add_video = add_audio
    @shows()
    def _show(self, value): ...

class Logger:
    rank: GlobalRank
    experiment: _Experiment
    def __getattr__(self, name) -> Setting: ...
    def log_hyperparams(self, params, *args, **more) -> None: ...
    def log_metrics(self, metrics, step=None):
        if self.rank == 0:
            self._show(metrics)
    @shows()
    def _show(self, value): ...
