"""The function that is spawned cannot be called with what `mp.spawn` passes to it.

## What goes wrong

`torch.multiprocessing.spawn(fn, args)` starts processes that each call `fn(i, *args)`, where `i` counts the processes
from 0. So `args` is a tuple (`(n,)`, not `(n)`, which is just `n`), and `fn` takes the index of the process first:
otherwise each process ends with `TypeError: Value after * must be an iterable, not int` or
`TypeError: run() takes 1 positional argument but 2 were given`. A new process imports the file and looks `fn` up by its
name, so a lambda or a function inside another function cannot be passed: `AttributeError: Can't pickle local
object 'main.<locals>.train'`. Nor does it run a notebook: for a function of a cell, `mp.spawn` ends with
`AttributeError: Can't get attribute 'train' on <module '__main__' (built-in)>`.

## Fix

Write the comma that makes a tuple: safe. Give the function `rank` as its first parameter, or move it to the top level
of the file: by hand.

## Silent when

The arguments or the parameters are not known exactly (`*args`, a list made elsewhere, a partial); the start method is
`fork`, for which nothing is pickled.

## Sources

https://docs.pytorch.org/docs/stable/multiprocessing.html#torch.multiprocessing.spawn, helboukkouri/character-bert#4;
the texts are those of torch 2.13 with Python 3.11, run here.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.events.process import Spawn
from gpudoctor.lint.repair.repair import Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Recording, Rule


class SpawnArguments(Rule):
    code = "GPU404"
    severity = Severity.ERROR
    errors = (
        "TypeError: Value after * must be an iterable, not int",
        "TypeError: run() takes 1 positional argument but 2 were given",
        "AttributeError: Can't pickle local object 'main.<locals>.train'",
        "AttributeError: Can't get attribute 'train' on <module '__main__' (built-in)>",
    )
    stops = True
    fix_safety = Safety.SAFE
    shows_when = ("ended_well",)
    needs = (Spawn,)

    def in_code(self, program: Program) -> Findings:
        for event in program.events(Spawn):
            # In the order in which a run meets them: the arguments are unpacked before the function is called.
            story = _not_a_tuple(event) or _wrong_count(event) or _cannot_be_sent(event) or _not_in_a_file(event)
            if story is not None:
                message, remedy = story
                repair = _make_tuple(event) if _not_a_tuple(event) else None
                yield self.found(at=event.location, message=message, remedy=remedy, repair=repair)

    def in_run(self, recording: Recording) -> Findings:
        if not any(crash.through("torch/multiprocessing/spawn.py") for _, crash in recording.crashes()):
            return
        for text in ("must be an iterable, not", "positional argument", "<locals>"):
            seen = (crash for _, crash in recording.crashes() if text in crash.text)
            # A worker that was called has failed in the program itself; what cannot be sent fails before any is.
            if text != "<locals>" and not all(_calls_workers(crash.raised_in) for crash in seen):
                continue
            yield from self.crashed(
                recording,
                text,
                because="`mp.spawn` calls the function with the rank and what `args` holds",
                remedy="Give `args` as a tuple, as in `args=(n,)`, to a function of the module that takes the rank "
                "first.",
            )


_CALLERS = ("torch/multiprocessing/spawn.py", "gpudoctor/run/instruments/crashes.py")
"""What calls the worker, and what a run puts in between."""


def _calls_workers(path: str) -> bool:
    # Behind the name of ours stands that warnings pass over it.
    return any(caller in path for caller in _CALLERS)


def _make_tuple(event: Spawn) -> Repair:
    title = "Make `args` a tuple"
    unnamed = Repair(title, (_in_a_tuple(event.location, "1"),))
    return Repair(title, (_in_a_tuple(event.location, "args"),), otherwise=unnamed)


def _in_a_tuple(call: Location, part: str) -> Replace:
    return Replace(call, ("(", Source(call, part), ",)"), part=part)


def _not_a_tuple(event: Spawn) -> tuple[str, str] | None:
    # Lists can be unpacked as well, so only values that surely cannot are named.
    if not event.not_unpacked:
        return None
    return (
        "`args` is not a tuple: parentheses around one value do not make one, and each process ends with `TypeError: "
        "Value after * must be an iterable`.",
        "Write the comma that makes it a tuple: `args=(value,)`.",
    )


def _wrong_count(event: Spawn) -> tuple[str, str] | None:
    count = event.arguments
    if event.required is None or count is None:
        return None
    # Defaults make a range of counts, and `*args` leaves it open.
    fewest, most = event.required
    if fewest <= count and (most is None or count <= most):
        return None
    takes = f"{fewest}" if fewest == most else f"at least {fewest}" if most is None else f"{fewest} to {most}"
    given = f"{count} argument{'' if count == 1 else 's'}: the rank, and {count - 1} from `args`"
    if count == 1:
        given = "1 argument: the rank"
    return (
        f"Each process calls the function with {given}. It takes {takes}, so the process ends with a TypeError.",
        "Take the rank as the first parameter of the function, and pass the others in `args`.",
    )


def _cannot_be_sent(event: Spawn) -> tuple[str, str] | None:
    # A forked process has the function in its memory already.
    if not event.target_is_local or not event.imports:
        return None
    return (
        "The function is a lambda or stands inside another function. A new process finds it by its name in the file, "
        "so it cannot be passed on: `Can't pickle local object`.",
        "Move the function to the top level of the file, and pass in `args` what it took from around it.",
    )


def _not_in_a_file(event: Spawn) -> tuple[str, str] | None:
    if not event.target_in_notebook or not event.imports:
        return None
    return (
        "The function stands in a cell of this notebook. A new process runs no notebook, so that it cannot find it: "
        "`AttributeError: Can't get attribute ... on <module '__main__' (built-in)>`.",
        "Move the function to a file and import it from there, or fork the processes before anything has used a GPU: "
        '`mp.start_processes(..., start_method="fork")`.',
    )
