"""The exchange behind `Metric.compute`, which the program calls by the name of that method."""

from gpudoctor.manifest.effects import collective

@collective(sends="counted", gathers=True)
def compute(counted): ...
