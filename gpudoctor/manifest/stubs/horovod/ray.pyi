"""Ranks that are workers of Ray: the process that asks for them is none."""

from gpudoctor.manifest.effects import followed, starts_ranks

@followed()
class RayExecutor:
    def __init__(self, settings, num_workers=None, **more): ...
    @starts_ranks(function="fn", args="args", meet=True)
    def run(self, fn, args=None, kwargs=None, callbacks=None): ...
    @starts_ranks(function="fn", args="args", meet=True)
    def run_remote(self, fn, args=None, kwargs=None, callbacks=None): ...

@followed()
class ElasticRayExecutor:
    def __init__(self, settings, **more): ...
    @starts_ranks(function="worker_fn", meet=True)
    def run(self, worker_fn, callbacks=None): ...
