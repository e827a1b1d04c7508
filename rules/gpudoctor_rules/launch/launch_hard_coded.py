"""GPUs, the number of processes or the address of a machine are written into the program.

## What goes wrong

Nothing, on the machine for which it was written. On another one `device_ids=[0, 1, 2, 3]` ends with `RuntimeError:
CUDA error: invalid device ordinal` or `AssertionError: Invalid device id`, or leaves GPUs idle; a literal number of
processes does the same; and a literal address makes every rank wait for a machine that is not there. Whoever runs the
program has to find and change these lines.

## Fix

Leave `device_ids` out, so that all visible GPUs are used, and choose them outside with `CUDA_VISIBLE_DEVICES`; take
`torch.cuda.device_count()` for `nprocs`; leave addresses to `torchrun`, or take them from the command line. No
automatic fix.

## Silent when

The number is one, or a default that the user can change; the address is this machine's own (`localhost`); the list has
one GPU, since a program for one GPU says nothing about others.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html, tczhangzhi/pytorch-distributed,
Ugenteraan/PyTorch-Distributed-Processing-MNIST.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import EnvironmentWrite, InitGroup, Spawn
from gpudoctor.lint.questions.addresses import HERE
from gpudoctor.rule import Findings, Program, Rule


class LaunchHardCoded(Rule):
    code = "GPU416"
    severity = Severity.INFO
    needs = (EnvironmentWrite, InitGroup, Spawn, Wrap)

    def in_code(self, program: Program) -> Findings:
        lists = {wrap.location: wrap.ids_at for wrap in program.events(Wrap)}
        for place, what, remedy in (*_gpus(program), *_counts(program), *_addresses(program)):
            yield self.found(
                place,
                f"{what}: on another machine this has to be changed.",
                remedy=remedy,
                because=[("the list is written here", lists.get(place))],
            )


def _gpus(program: Program) -> Iterator[tuple[Location, str, str]]:
    for wrap in program.events(Wrap):
        ids = wrap.ids or ()
        if (
            wrap.is_data_parallel
            and len(ids) > 1
            and all(each is not None and each.literal_index is not None for each in ids)
        ):
            yield (
                wrap.location,
                "The GPUs are written in the program",
                "Leave `device_ids` out: all visible GPUs are used.",
            )
    for write in program.events(EnvironmentWrite):
        value = write.text
        if write.name == "CUDA_VISIBLE_DEVICES" and value is not None and _names_several(value):
            yield (
                write.location,
                "The visible GPUs are written in the program",
                "Set `CUDA_VISIBLE_DEVICES` where it is started.",
            )


def _counts(program: Program) -> Iterator[tuple[Location, str, str]]:
    counted = [(event.location, event.number) for event in program.events(Spawn)]
    counted += [(event.location, event.number_of_ranks) for event in program.events(InitGroup)]
    for place, number in counted:
        if number is not None and number > 1:
            yield (
                place,
                f"The number of processes is fixed at {number}",
                "Use `torch.cuda.device_count()` where the program "
                "starts the processes, and otherwise what `torchrun` sets.",
            )
            # Where they are started and where they meet it is one number.
            return


def _addresses(program: Program) -> Iterator[tuple[Location, str, str]]:
    given = [(event.location, event.text) for event in program.events(EnvironmentWrite) if event.name == "MASTER_ADDR"]
    given += [(event.location, event.address) for event in program.events(InitGroup)]
    for place, text in given:
        # `tcp://10.1.1.20:23456`; a file or the environment is no address.
        address = (text or "").removeprefix("tcp://").partition(":")[0]
        if "." in address and "/" not in address and not address.startswith(HERE):
            yield (
                place,
                f"The address {address} is written in the program",
                "Leave it to `torchrun`, or make it an option.",
            )


def _names_several(gpus: str) -> bool:
    numbers = [each.strip() for each in gpus.split(",")]
    return len(numbers) > 1 and all(each.isdigit() for each in numbers)
