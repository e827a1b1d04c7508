"""Retries."""

from gpudoctor.manifest.effects import calls

@calls(function="f", args="fargs", keywords="fkwargs", here=True)
def retry_call(f, fargs=None, fkwargs=None, exceptions=Exception, **more): ...
