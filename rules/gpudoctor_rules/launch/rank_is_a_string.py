"""The rank or the world size from the environment is text, and is used as if it were a number.

## What goes wrong

`os.environ["RANK"]`, the number of the process among all, is a string. `rank == 0` is then false on every rank, so
nobody saves, prints or downloads, and no error is raised. Where a number is needed the program ends with a TypeError:
`'>=' not supported between instances of 'str' and 'int'` in a `DistributedSampler`, `device(): argument 'index'
(position 2) must be int, not str`, or `Invalid device string: '0'` in `torch.cuda.set_device`.

## Fix

Convert where the variable is read: `int(os.environ["RANK"])`. Safe.

## Silent when

The text is converted on the way, in whichever function; it is compared with text, or becomes a part of text such as
`f"cuda:{local_rank}"`.

## Sources

https://docs.python.org/3/library/os.html#os.environ; the texts are those of torch 2.13, run here.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.domain.rank import RankKind, SizeKind
from gpudoctor.lint.events.process import EnvironmentRead, RankTextUsed
from gpudoctor.lint.repair.repair import Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Recording, Rule

VARIABLES = {
    RankKind.GLOBAL: "RANK",
    RankKind.LOCAL: "LOCAL_RANK",
    SizeKind.WORLD: "WORLD_SIZE",
    SizeKind.LOCAL_WORLD: "LOCAL_WORLD_SIZE",
}


class RankIsAString(Rule):
    code = "GPU409"
    severity = Severity.ERROR
    errors = ("TypeError: '>' not supported between instances of 'str' and 'int'",)
    stops = True
    fix_safety = Safety.SAFE
    shows_when = ("ended_well",)
    needs = (RankTextUsed,)

    def in_code(self, program: Program) -> Findings:
        for event in program.events(RankTextUsed):
            # One reading may be used at many places, and mends them all.
            place = event.rank.place or event.location
            variable = VARIABLES.get(event.rank.kind, event.rank.kind.value)
            yield self.found(
                at=place,
                message=f"`{variable}` is the text of an environment variable, and it is {event.use}. Text never "
                "equals a number, and where a number is needed it raises a TypeError.",
                remedy=f'Convert it where it is read: `int(os.environ["{variable}"])`.',
                because=[("the text is used as a number here", event.location)],
                repair=_convert(program, event.rank.place),
            )

    def in_run(self, recording: Recording) -> Findings:
        if any(crash.through("torch/utils/data/distributed.py") for _, crash in recording.crashes()):
            yield from self.crashed(
                recording,
                "between instances of 'str' and 'int'",
                because="the rank is the text that the environment holds",
                remedy="Make it a number: `int(os.environ[...])`.",
            )


def _convert(program: Program, at: Location | None) -> Repair | None:
    reads = [event for event in program.events(EnvironmentRead) if event.location == at]
    # `int(None)` would end a program that is started without a launcher.
    if at is None or not reads or not all(read.insists or read.has_default for read in reads):
        return None
    return Repair("Make a number of it", (Replace(at, ("int(", Source(at), ")")),))
