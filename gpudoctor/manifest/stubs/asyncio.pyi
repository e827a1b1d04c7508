"""Coroutines: what one is called for, it has done when its call is over."""

from gpudoctor.manifest.effects import followed

@followed()
def to_thread(func, /, *args, **kwargs):
    return func(*args, **kwargs)

@followed()
class AbstractEventLoop:
    def run_in_executor(self, executor, func, *args):
        return func(*args)
    def call_soon(self, callback, *args, context=None):
        callback(*args)
    def run_until_complete(self, future):
        return future
    def create_task(self, coro, *, name=None, context=None):
        return coro

@followed()
def get_event_loop():
    return AbstractEventLoop()

get_running_loop = new_event_loop = get_event_loop

@followed()
def create_task(coro, *, name=None, context=None):
    return coro

@followed()
def run(main, *, debug=None):
    return main

@followed()
def wait_for(fut, timeout):
    return fut

@followed()
def gather(*coros_or_futures, return_exceptions=False):
    return list(coros_or_futures)
