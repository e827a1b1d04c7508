"""Ranks that a cluster starts."""

from gpudoctor.manifest.effects import trains

@trains()
class AutoExecutor: ...

@trains()
class LocalExecutor: ...

@trains()
class SlurmExecutor: ...
