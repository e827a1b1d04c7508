"""Processes are spawned by a file that each of them imports again, with nothing to stop it there.

## What goes wrong

A process that `torch.multiprocessing.spawn` starts imports the file of the main program to find the function it has to
run. If the file spawns processes while it is imported, because the call stands at the top level and not under
`if __name__ == "__main__":`, the new process would do the same again. Python stops it with `RuntimeError: An attempt
has been made to start a new process before the current process has finished its bootstrapping phase`, and the main
process with `ProcessExitedException: process 0 terminated with exit code 1`.

## Fix

Put what starts the program under `if __name__ == "__main__":`. Unsafe: what else stands there runs in the main process
only from then on.

## Silent when

The call, or the call of the function around it, is under the guard; the processes are forked; the program is the
`__main__.py` of a package.

## Sources

https://docs.python.org/3/library/multiprocessing.html#the-spawn-and-forkserver-start-methods; run with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.events.process import Spawn
from gpudoctor.lint.repair.repair import Repair, Under
from gpudoctor.rule import CrashText, Findings, Program, Rule


class SpawnWithoutMainGuard(Rule):
    code = "GPU405"
    severity = Severity.ERROR
    errors = (
        "RuntimeError: An attempt has been made to start a new process before the current process has finished its "
        "bootstrapping phase.",
    )
    fix_safety = Safety.UNSAFE
    shows_when = ("ended_well",)
    needs = (Spawn,)
    crash = CrashText(
        "current process has finished its bootstrapping phase",
        because="each new process starts the program again",
        remedy='Start the processes under `if __name__ == "__main__":`.',
    )

    def in_code(self, program: Program) -> Findings:
        # `python -m package` runs `__main__.py`, which new processes know and do not import again.
        if not program.whole or program.entry.endswith("__main__.py"):
            return
        for event in program.events(Spawn):
            # A forked process goes on from the call and imports nothing.
            if not event.guarded and event.imports:
                # The outermost call is the one that belongs under the guard.
                start = (*event.context.calls, event.location)[0]
                yield self.found(
                    at=start,
                    message="Each spawned process imports this program and gets here again, because nothing "
                    "tests whether it is `__main__`: it ends with `An attempt has been made to start a new process`.",
                    remedy='Start the program under `if __name__ == "__main__":`.',
                    because=[("the processes are spawned here", event.location)],
                    repair=_guard(start),
                )


def _guard(at: Location) -> Repair:
    return Repair("Start only where the file is the main program", (Under(at, ('if __name__ == "__main__":',)),))
