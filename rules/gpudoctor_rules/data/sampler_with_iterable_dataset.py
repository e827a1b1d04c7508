"""A loader is asked to pick samples of a stream, which has none to pick from.

## What goes wrong

An `IterableDataset` yields its samples in its own order; there is no index that a sampler could choose. `DataLoader`
refuses at once, on every rank: `ValueError: DataLoader with IterableDataset: expected unspecified sampler option, but
got sampler=<torch.utils.data.distributed.DistributedSampler object at 0x...>`. With `shuffle=True` it says the same of
`shuffle`, with a batch sampler of `batch_sampler`.

## Fix

Leave the sampler out, and let the stream itself give each rank its shard: every n-th sample, or files of its own. No
automatic fix: without a sampler all ranks would read everything.

## Silent when

The data set may have an index on some path, or its class is not known; the sampler may be None; a handler takes the
`ValueError`, and the program goes on.

## Sources

The text is that of torch 2.13, run here; https://docs.pytorch.org/docs/stable/data.html#iterable-style-datasets.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.data import Dataset, Loader, Sampler
from gpudoctor.lint.events.data_loading import MakeLoader
from gpudoctor.rule import CrashText, Findings, Program, Rule


class SamplerWithIterableDataset(Rule):
    code = "GPU310"
    severity = Severity.ERROR
    errors = (
        "ValueError: DataLoader with IterableDataset: expected unspecified sampler option, but got "
        "sampler=<torch.utils.data.distributed.DistributedSampler object",
    )
    shows_when = ("ended_well",)
    needs = (MakeLoader,)
    looks_at = ((MakeLoader, "of_stream"),)
    crash = CrashText(
        "IterableDataset",
        also="sampler option",
        remedy="Leave `sampler` out, and let the data set itself give each rank and each worker its shard.",
    )

    def in_code(self, program: Program) -> Findings:
        for event in program.events(MakeLoader):
            loader = event.loader
            if loader.managed or not event.of_stream:
                continue
            data = next(iter(loader.dataset or ()), None)
            option, picked = _option(event, loader)
            if option is None or not isinstance(data, Dataset) or program.is_caught(event, "ValueError"):
                continue
            yield self.found(
                loader.place,
                f"`{loader.label}` reads a stream, which has no index to pick from: every rank ends with `ValueError: "
                f"DataLoader with IterableDataset: expected unspecified {option} option`.",
                remedy=f"Leave `{option}` out, and give each rank its shard in the `__iter__` of the data set.",
                because=[("the stream is made here", data.place), ("the sampler here", picked)],
            )


def _option(event: MakeLoader, loader: Loader) -> tuple[str | None, Location | None]:
    """What the loader is surely given that it refuses, and where that was made."""
    for name, given in (("sampler", loader.sampler), ("batch_sampler", loader.batch_sampler)):
        values = given.restrict(event.condition) if given is not None else None
        if values is not None and values.are(Sampler):
            return name, next(value.place for value in values if isinstance(value, Sampler))
    shuffled = loader.shuffles(event.condition)
    return ("shuffle" if shuffled else None), None
