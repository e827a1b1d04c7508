"""Ranks that the program starts itself."""

from gpudoctor.manifest.effects import trains

@trains(in_ranks=True)
def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"): ...
@trains(in_ranks=True)
def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"): ...

@trains()
class Process: ...
