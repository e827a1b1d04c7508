"""What is done when a program ends."""

from gpudoctor.manifest.effects import calls

@calls(function="func", hands_on=True, at_end=True)
def register(func, **more): ...
