"""Ranks that the program starts itself."""

from gpudoctor.manifest.effects import starts_ranks

@starts_ranks(function="main_func", args="args")
def launch(main_func, num_gpus_per_machine, num_machines=1, machine_rank=0, dist_url=None, args=(), **more): ...
