"""torchrun as a function."""

from gpudoctor.manifest.effects import gives_back, starts_ranks, trains

@trains()
class elastic_launch:
    @gives_back(given="entrypoint")
    def __init__(self, config, entrypoint, **more): ...

@starts_ranks(function="entrypoint", args="args")
def launch_agent(config, entrypoint, args, **more): ...
