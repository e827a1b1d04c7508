"""Contexts."""

from gpudoctor.manifest.effects import followed, opens

@opens()
class suppress: ...

@opens()
class redirect_stdout: ...

@opens()
class redirect_stderr: ...

@followed()
class ContextDecorator:
    def __call__(self, func):
        def inner(*args, **kwds):
            with self:
                return func(*args, **kwds)
        return inner
