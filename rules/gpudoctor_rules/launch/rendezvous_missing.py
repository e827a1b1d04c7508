"""Processes are not told at which address and as which rank they meet, or are told wrongly.

## What goes wrong

`init_process_group` without a `tcp://` or `file://` address reads the meeting point from the environment: `MASTER_ADDR`
and `MASTER_PORT`, and also `RANK` and `WORLD_SIZE` where they are not given as arguments. `torchrun` sets all four.
`torch.multiprocessing.spawn` sets none, so every spawned process ends with `ValueError: Error initializing
torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but not set`.

A port is a number from 0 to 65535. With another one, as `os.environ["MASTER_PORT"] = "80000"`, every process ends with
`ValueError: port must have value from 0 to 65535 but was 80000`, whoever has started it.

`torchrun` opens the port itself, 29500 or that of `--master-port`, and tells the ranks. Where the program writes
another one over it, nobody listens there: all ranks wait, and end in `The client socket has timed out`.

## Fix

Set the two variables before the processes are spawned, or at the start of each; pass `rank` and `world_size` to
`init_process_group`. Unsafe: an address for one machine is assumed. No automatic fix for an invalid port: write another
number, such as 29500. Under `torchrun`, set neither of the two.

## Silent when

The variables are set anywhere before, by whichever function; an `init_method` with an address, or a store, is given, or
one that cannot be known; the program asks for these variables itself, so that the user must set them; a framework
starts the processes. A port is reported only where its number is certain, and one that is written over that of
`torchrun` only where no other launcher is expected.

## Sources

https://docs.pytorch.org/docs/stable/distributed.html#environment-variable-initialization; the text is that of torch
2.13, run here, and so is a port that is written over that of torchrun.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.process import EnvironmentRead, EnvironmentWrite, InitGroup, Spawn, meets_by_environment
from gpudoctor.lint.questions.users_choice import by_choice
from gpudoctor.lint.repair.repair import Before, Code, Holds, Imported, Repair, RepairStep, SetArgument, SetArguments
from gpudoctor.lint.repair.snippets import LOCAL
from gpudoctor.rule import CrashText, Findings, Program, Rule
from gpudoctor_rules._error_texts import NO_RANK

ADDRESS = ("MASTER_ADDR", "MASTER_PORT")


# 29500 is the port that PyTorch's own launchers take.
VALUES = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
PORTS = range(65536)
MOST_DIGITS = 20
OF_TORCH = ("", "launch")
"""The launchers of PyTorch, which open the port themselves."""


class RendezvousMissing(Rule):
    code = "GPU403"
    severity = Severity.ERROR
    errors = (
        *NO_RANK,
        "ValueError: Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR "
        "expected, but not set",
        "ValueError: port must have value from 0 to 65535 but was 80000.",
    )
    fix_safety = Safety.UNSAFE
    shows_when = ("ended_well",)
    needs = (EnvironmentWrite, Spawn)
    crash = (
        CrashText(
            "environment variable",
            also="expected, but not set",
            because="the ranks cannot find each other",
            remedy="Set MASTER_ADDR and MASTER_PORT before the processes are started, and give each its `rank` and "
            "`world_size`.",
        ),
        CrashText(
            f"port must have value from 0 to {PORTS[-1]}",
            because="`MASTER_PORT` is not a valid port",
            remedy=f"Write a port that is free, such as {VALUES['MASTER_PORT']}.",
        ),
    )

    def in_code(self, program: Program) -> Findings:
        yield from self._wrong_port(program)
        yield from self._not_told(program)

    def _wrong_port(self, program: Program) -> Findings:
        # A framework may choose the port itself.
        if program.managed_by:
            return
        for event in program.events(InitGroup):
            written = _last_port(program, event)
            port = None if written is None else _port_of(written)
            if written is None or port is None:
                continue
            if port in PORTS:
                yield from self._other_port(program, event, written, port)
                continue
            yield self.found(
                at=written.location,
                message=f"`MASTER_PORT` is set to {port}, and ports end at {PORTS[-1]}: each process ends in "
                f"`init_process_group` with `ValueError: port must have value from 0 to {PORTS[-1]} but was {port}`.",
                remedy=f"Write a port that is free, such as {VALUES['MASTER_PORT']}.",
                because=[("the processes meet here", event.location)],
            )

    def _other_port(self, program: Program, event: InitGroup, written: EnvironmentWrite, port: int) -> Findings:
        """The launcher itself opens the port at which its ranks meet, and these ask at another one."""
        if program.world is not LaunchWorld.TORCHRUN or not program.whole or port == int(VALUES["MASTER_PORT"]):
            return
        # Whoever sets the rank as well brings what a launcher brings.
        sets_rank = any(each.name in ("RANK", "") for each in program.events(EnvironmentWrite))
        if program.launcher not in OF_TORCH or sets_rank or not program.by_every_rank(written):
            return
        if by_choice(program, written):
            return
        yield self.found(
            at=written.location,
            message=f"Every rank looks for the others at port {port}, and `torchrun` has them meet at its own: nobody "
            f"listens there, and all end in `The client socket has timed out`, unless it is given "
            f"`--master-port={port}`.",
            remedy="Leave `MASTER_PORT` as `torchrun` has set it.",
            because=[("the processes meet here", event.location)],
            severity=Severity.WARNING,
        )

    def _not_told(self, program: Program) -> Findings:
        # `torchrun` sets all four; a single process has nobody to meet.
        if not program.has(Spawn):
            return
        if program.world is not LaunchWorld.SPAWN or not program.absence():
            return
        spawn = next(program.events(Spawn), None)
        for event in program.events(InitGroup):
            # A group that the parent makes for itself is another story.
            if spawn is None or event.order < spawn.order or not event.from_environment:
                continue
            # MPI tells its processes where they meet, and as whom.
            if event.may_use("mpi"):
                continue
            # On several nodes only the user knows the address, and exports it on each of them.
            if event.counts_nodes:
                continue
            missing = [name for name in _needed(event) if not _known(program, name, event)]
            if missing:
                yield self.found(
                    at=event.location,
                    message=f"{_and(missing)} {'is' if len(missing) == 1 else 'are'} never set, and starting processes "
                    "sets no variable: each one ends here with `environment variable "
                    f"{missing[0]} expected, but not set`.",
                    remedy=_remedy(missing),
                    because=[("the processes are spawned here", spawn.location)],
                    repair=_tell(event, spawn, missing),
                )
                return


def _tell(event: InitGroup, spawn: Spawn, missing: list[str]) -> Repair | None:
    if spawn.nprocs is None and "WORLD_SIZE" in missing:
        return None
    words: dict[str, Code] = {"RANK": (Holds(LOCAL),)}
    if spawn.nprocs is not None:
        words["WORLD_SIZE"] = (Holds(spawn.nprocs),)
    lines = tuple((Imported("os.environ"), f'["{name}"] = "{VALUES[name]}"') for name in missing if name in ADDRESS)
    given = tuple(SetArgument(event.location, name.lower(), words[name]) for name in missing if name in words)
    steps: tuple[RepairStep, ...] = (Before(spawn.location, lines),) if lines else ()
    return Repair("Say where the ranks meet", (*steps, SetArguments(event.location, given)) if given else steps)


def _last_port(program: Program, event: InitGroup) -> EnvironmentWrite | None:
    """What the port surely is when the processes meet: the last that was written before, on the way that led there."""
    # `--dist-url`, which is `env://` where it is left out.
    method = event.init_method.map(program.left_out) if event.init_method is not None else None
    if not meets_by_environment(method):
        return None
    names = ("MASTER_PORT", "")
    before = [each for each in program.events(EnvironmentWrite) if each.name in names and each.order < event.order]
    last = before[-1] if before else None
    return last if last is not None and last.name and event.condition.implies(last.condition) else None


def _port_of(written: EnvironmentWrite) -> int | None:
    """The number that was written, as text."""
    text = written.text or ""
    return int(text) if text.removeprefix("-").isdecimal() and len(text) < MOST_DIGITS else None


def _needed(event: InitGroup) -> list[str]:
    # Given as arguments, these two are not looked up.
    told = (("RANK", event.rank), ("WORLD_SIZE", event.world_size))
    return [*ADDRESS, *(name for name, given in told if given is None)]


def _known(program: Program, name: str, event: InitGroup) -> bool:
    """The program sets the variable before, counts on its user to do so, or speaks of it in a way that is not seen."""
    # An empty name stands for a write whose variable is not known, as `os.environ.update(...)`.
    written = any(each.name in (name, "") and each.order < event.order for each in program.events(EnvironmentWrite))
    spoken_of = name in ADDRESS and program.may_name(name)
    return written or spoken_of or any(each.name == name for each in program.events(EnvironmentRead))


def _and(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _remedy(missing: list[str]) -> str:
    address = [name for name in missing if name in ADDRESS]
    lines = [f'`os.environ["{name}"] = "{VALUES[name]}"` before the processes are spawned' for name in address]
    given = [f"`{name.lower()}=`" for name in missing if name not in ADDRESS]
    if given:
        lines.append(f"{' and '.join(given)} in this call")
    return f"Write {', and '.join(lines)}."
