"""Threads."""

from gpudoctor.manifest.effects import calls

class Thread:
    @calls(function="target", args="args", keywords="kwargs")
    def __init__(self, group=None, target=None, name=None, args=(), kwargs=None, *, daemon=None): ...

class Timer:
    @calls(function="function", args="args", keywords="kwargs")
    def __init__(self, interval, function, args=None, kwargs=None): ...
