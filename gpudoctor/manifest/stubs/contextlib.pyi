"""Contexts."""

from gpudoctor.manifest.effects import followed, opens

@opens()
class suppress: ...

redirect_stdout = redirect_stderr = suppress

@followed()
class ContextDecorator:
    def __call__(self, func):
        def inner(*args, **kwds):
            with self:
                return func(*args, **kwds)
        return inner
