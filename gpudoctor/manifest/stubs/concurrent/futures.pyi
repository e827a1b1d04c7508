"""Threads that wait for work."""

from gpudoctor.manifest.effects import calls

class ThreadPoolExecutor:
    @staticmethod
    @calls(function="fn", hands_on=True)
    def submit(fn, **more): ...
