"""Threads."""

from contextlib import suppress

from gpudoctor.manifest.effects import calls, followed

@followed()
class Thread:
    def __init__(self, group=None, target=None, name=None, args=(), kwargs=None, *, daemon=None):
        self._target = target
        self._args = args
        self._kwargs = kwargs or {}
    def start(self):
        # Its error ends the thread alone.
        with suppress(BaseException):
            self.run()
    def run(self):
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

class Timer:
    @calls(function="function", args="args", keywords="kwargs")
    def __init__(self, interval, function, args=None, kwargs=None): ...
