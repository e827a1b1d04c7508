"""What is done when a process is told something."""

from gpudoctor.manifest.effects import calls

@calls(function="handler", brings=2, at_end=True, at_any_time=True)
def signal(signalnum, handler): ...
