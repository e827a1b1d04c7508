"""torchrun as a function."""

from gpudoctor.manifest.effects import starts_ranks, trains

@trains()
class elastic_launch:
    def __init__(self, config, entrypoint, **more): ...

@starts_ranks(function="entrypoint", args="args")
def launch_agent(config, entrypoint, args, **more): ...
