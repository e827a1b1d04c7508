"""Contexts."""

from gpudoctor.manifest.effects import opens

@opens()
class suppress: ...

@opens()
class redirect_stdout: ...

@opens()
class redirect_stderr: ...
