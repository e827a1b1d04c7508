"""Ranks that the program starts itself."""

from gpudoctor.manifest.effects import starts_ranks, trains

@starts_ranks(function="function", args="args")
def debug_launcher(function, args=(), num_processes=2): ...
@trains(in_ranks=True)
def notebook_launcher(function, args=(), num_processes=None, **more): ...
