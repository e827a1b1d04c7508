"""A loader is given a sampler and `shuffle=True`, which exclude each other.

## What goes wrong

A sampler decides which sample comes next, and so does `shuffle=True`. `DataLoader` refuses to be given both, before
the first batch, on every rank (each process, one for each GPU): `ValueError: sampler option is mutually exclusive
with shuffle`. With a `batch_sampler` the text is `batch_sampler option is mutually exclusive with batch_size,
shuffle, sampler, and drop_last`.

## Fix

Remove `shuffle=True` from the loader. Safe: a `DistributedSampler` shuffles unless it is told not to, and the program
did not run before.

## Silent when

`shuffle` is true only where the sampler is None, as in `shuffle=(sampler is None)`; either is not known; a
handler takes the `ValueError`, and the program goes on.

## Sources

https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader, innnky/so-vits-svc#70.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Safety, Severity
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.domain.value import Values
from gpudoctor.lint.events.data_loading import MakeLoader
from gpudoctor.lint.repair.repair import RemoveArgument, Repair
from gpudoctor.rule import SOME_PATHS, CrashText, Findings, Program, Rule

EXCLUSIVE = {
    "sampler": "sampler option is mutually exclusive with shuffle",
    "batch_sampler": "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last",
}


class ShuffleWithSampler(Rule):
    code = "GPU303"
    severity = Severity.ERROR
    errors = ("ValueError: sampler option is mutually exclusive with shuffle",)
    fix_safety = Safety.SAFE
    shows_when = ("ended_well",)
    needs = (MakeLoader,)
    looks_at = ((MakeLoader, "loader.shuffle"),)
    crash = CrashText(
        "sampler option is mutually exclusive with shuffle",
        remedy="Leave `shuffle` out: the sampler decides on the order.",
    )

    def in_code(self, program: Program) -> Findings:
        for event in program.events(MakeLoader):
            loader = event.loader
            # Left out it is False for a loader.
            if loader.shuffle is None or program.is_caught(event, "ValueError"):
                continue
            for name, given in (("sampler", loader.sampler), ("batch_sampler", loader.batch_sampler)):
                # Asked path by path, since `shuffle` and `sampler` are often two answers to one test.
                sampler = _refused(event, loader.shuffle, given)
                if given is not None and sampler is not None:
                    always = given.restrict(event.condition).are(Sampler)
                    yield self._both(loader, name, sampler, "" if always else SOME_PATHS)

    def _both(self, loader: Loader, name: str, sampler: Sampler, doubt: str) -> Finding:
        shuffles = "; the sampler shuffles already" if sampler.base.distributed and sampler.base.shuffle is None else ""
        return self.found(
            at=loader.place,
            message=f"`{loader.label}` gets `shuffle=True` and a sampler, which are mutually exclusive: every rank "
            f"ends with `ValueError: {EXCLUSIVE[name]}`.",
            remedy=f"Leave `shuffle=True` out{shuffles}.",
            because=[("the sampler is made", sampler.place)],
            doubt=doubt,
            repair=Repair("Remove `shuffle=True`", (RemoveArgument(loader.place, "shuffle", 2),)),
        )


def _refused(event: MakeLoader, shuffle: Values, given: Values | None) -> Sampler | None:
    """The sampler that is given on a path on which `shuffle` can only be True."""
    for binding in given.restrict(event.condition).bindings if given is not None else ():
        if isinstance(binding.value, Sampler):
            together = shuffle.restrict(event.condition.and_(binding.condition))
            # One path on which `shuffle` may be False is enough doubt: it may be the path that is taken.
            if together.all(lambda value: value.in_python is True):
                return binding.value
    return None
