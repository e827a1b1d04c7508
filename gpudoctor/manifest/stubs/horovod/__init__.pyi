"""Ranks that the program starts itself."""

from gpudoctor.manifest.effects import starts_ranks

@starts_ranks(function="func", args="args")
def run(func, args=(), kwargs=None, **more): ...
