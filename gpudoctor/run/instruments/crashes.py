"""How the process ends: what it raised and where, or that it came to its end."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any

from gpudoctor.run.instruments.backend_threads import let_backends_rest
from gpudoctor.run.instruments.listener import collectives
from gpudoctor.run.instruments.models import tell_searches
from gpudoctor.run.instruments.state import State
from gpudoctor.run.places import is_own
from gpudoctor.run.protocol import FATAL
from gpudoctor.run.stand_ins import standing_for


def watch(state: State) -> None:
    """Write a line for an exception that nobody caught, and one at the end of the process."""
    tell = state.recorder.guarded(_tell)
    show = sys.excepthook

    def watched(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        tell(state, kind, error, trace)
        show(kind, error, trace)

    def leaves(*_: Any) -> None:
        state.left = state.recorder.place(), state.steps + state.exchanges

    sys.excepthook = watched
    sys.exit = state.recorder.before(sys.exit, leaves)
    state.recorder.guarded(_watch_spawned)(state, tell)
    state.recorder.guarded(_watch_children)(state, tell)
    state.recorder.guarded(_watch_signals)(state.recorder.folder)
    # Registered before anything of the user's, so it runs after all of that.
    atexit.register(state.recorder.guarded(_over), state)


def _watch_signals(folder: str) -> None:
    """Have Python write its stacks into a file of ours where a signal ends the process: so gloo ends a rank that meets
    another collective than its own, and the launcher then the others, which may not have missed it yet."""
    if faulthandler.is_enabled():
        # Somebody wants them elsewhere.
        return
    file = os.open(os.path.join(folder, FATAL.format(pid=os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    faulthandler.enable(file)
    if sys.platform != "win32" and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        faulthandler.register(signal.SIGTERM, file, chain=True)
    ours = os.fstat(file)

    def turned_away() -> None:
        # A child that was forked is another process, and the program may have closed all files.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(file), ours):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, file)
                os.close(nowhere)

    os.register_at_fork(after_in_child=turned_away)


def _watch_children(state: State, tell: Callable[..., None]) -> None:
    """What `multiprocessing` starts prints its exceptions itself, and its parent need not look at the exit code."""
    begin = BaseProcess._bootstrap  # type: ignore[attr-defined]

    @standing_for(begin)
    def begun(self: BaseProcess, *args: Any, **kwargs: Any) -> Any:
        run = self.run

        @standing_for(run)
        def watched() -> None:
            with _EndOfChild(functools.partial(tell, state, of_child=True)):
                run()

        self.run = watched  # type: ignore[method-assign]
        return begin(self, *args, **kwargs)

    BaseProcess._bootstrap = begun  # type: ignore[attr-defined]


def _watch_spawned(state: State, tell: Callable[..., None]) -> None:
    """Ranks of `mp.spawn` hand their exceptions on to the parent, and no hook sees them."""
    # The package has a function of the same name.
    spawn = sys.modules["torch.multiprocessing.spawn"]
    wrap = vars(spawn)["_wrap"]

    @standing_for(wrap)
    def watched(target: Callable[..., Any], *args: Any) -> None:
        @standing_for(target)
        def watched_target(*given: Any) -> Any:
            # Such processes end without what `atexit` was given.
            with _EndOfChild(functools.partial(tell, state), functools.partial(state.recorder.guarded(_over), state)):
                return target(*given)

        wrap(watched_target, *args)

    vars(spawn)["_wrap"] = watched


class _EndOfChild:
    """What a process does whose exceptions reach no hook. `over` is called behind it."""

    def __init__(self, tell: Callable[..., None], over: Callable[[], None] = lambda: None) -> None:
        self._tell = tell
        self._over = over

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._tell(kind, error, trace)
        self._over()


def _tell(
    state: State,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    *,
    of_child: bool = False,
) -> None:
    # Whoever was told to end has not failed; torch's launcher makes an error of that.
    if issubclass(kind, (KeyboardInterrupt, SystemExit)) or kind.__name__ == "SignalException":
        return
    # Without the text of each line: until that is read, a launcher has ended the process for the rank that it missed.
    calls = ((frame.f_code, line) for frame, line in traceback.walk_tb(trace))
    frames = [[code.co_filename, line, code.co_name, is_own(code.co_filename)] for code, line in calls]
    text = str(error)[:4000]
    state.write(
        "crash",
        type=kind.__name__,
        text=text,
        step=state.steps,
        frames=frames[-30:],
        of_child=of_child,
        trainable=[[id(each), sum(one.requires_grad for one in each.parameters())] for each in state.wrappers],
    )


def tell_the_rest(state: State) -> None:
    """Write once what is known as a whole only when nothing follows: at the end, or after the last step asked for."""
    if state.told_the_rest:
        return
    state.told_the_rest = True
    tell_searches(state)
    for write in state.at_end:
        state.recorder.guarded(write)()
    state.write("collectives", entries=collectives())


def _over(state: State) -> None:
    # Of a process that did nothing worth a line there is nothing to tell.
    if state.recorder.begun:
        tell_the_rest(state)
        place, done = state.left
        # Who went on after that has caught it.
        left = place if done == state.steps + state.exchanges else None
        told = {"backwards": state.backwards, "backward": state.backward_at, "left": left}
        state.write("over", steps=state.steps, cost=state.recorder.cost, **told)
        let_backends_rest()
