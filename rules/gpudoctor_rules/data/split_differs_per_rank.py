"""Each rank splits the data set differently, so some train on what others evaluate.

## What goes wrong

`random_split` draws from the generator of the process, or from the one that it is given. Where that has another seed on
each rank (each process, one for each GPU), or none at all, each has another split: samples that one rank holds back for
validation are trained on by another, and the model is judged by what it has seen. The distributed samplers then split
different lists, so some samples come twice and others never. No error is raised; the validation looks better than
it is.

`train_test_split` and `shuffle` of Hugging Face's data sets draw from the numbers of NumPy in the same way. Accelerate,
Lightning, Ray, DeepSpeed, Horovod and the Trainer of Transformers share out what each rank hands them, and seed nothing
before.

## Fix

`generator=torch.Generator().manual_seed(42)`, or `seed=42` of a Hugging Face data set: the split has a seed of its
own, the same on all ranks and in each run. Unsafe: the split differs from the one before, also for a model that is
trained on from a checkpoint.

## Silent when

A generator is given whose seed is the same on all ranks, or is not known; all ranks have set the same seed before; the
split is made before the processes are started, or on one rank; a framework is in charge that may seed it, as the
Trainer of Transformers does once it is made; something in the program mentions a seed and was not followed; the ranks
do not train one model together.

## Sources

Lightning-AI/pytorch-lightning#7728, Lightning-AI/pytorch-lightning#18638;
`fingerprint_transform` of datasets 5.2.
"""

from __future__ import annotations

from itertools import permutations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.events.data_loading import Split
from gpudoctor.lint.events.event_context import Event, RankAgreement
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import SeedSet
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.unseen_deeds import may_set_seed
from gpudoctor.lint.repair.repair import Code, Imported, Repair, SetArgument
from gpudoctor.rule import Findings, Program, Recording, Rule

REMEDY = "Give the split a seed of its own: `generator=torch.Generator().manual_seed(42)`."

SEEDED: Code = (Imported("torch.Generator"), "().manual_seed(42)")


class SplitDiffersPerRank(Rule):
    code = "GPU308"
    severity = Severity.WARNING
    fix_safety = Safety.UNSAFE
    of_ranks = True
    needs = (Split,)

    def in_code(self, program: Program) -> Findings:
        if program.managed_by - program.leaving("splits") or program.cut_short:
            return
        if not (program.launched_in_several if program.frameworks else program.presence()):
            return
        together = _together(program)
        for split in program.events(Split):
            why = _why(program, split) if together is not None and program.by_every_rank(split) else None
            if why is None or together is None or _is_seeded_by_framework(program, split):
                continue
            reason, seeded = why
            what, harm = _harm(split)
            yield self.found(
                split.location,
                f"Each rank {what} the data differently, since {reason}: {harm}.",
                remedy=f"Give it a seed of its own: `{split.call}(..., seed=42)`." if split.by_numpy else REMEDY,
                because=[
                    *([("each rank sets a different seed here", seeded)] if seeded is not None else []),
                    ("the ranks train one model", together.location),
                ],
                repair=_seed(split),
                # One seed before them mends all that have none of their own.
                cause=None if split.own_generator else seeded or together.location,
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.data._seen import parts_of

        parts = parts_of(recording)
        for one, other in permutations(parts, 2):
            both = one.trained & other.evaluated
            at = one.cut_at or one.training.made or one.training.place
            # Who evaluates with what he trains on himself does it on purpose.
            if at is None or not both or any(each.trained & each.evaluated for each in (one, other)):
                continue
            yield self.found(
                at,
                f"Of {len(other.evaluated)} samples that rank {other.rank} evaluated with, rank {one.rank} trained on "
                f"{len(both)}: each rank has split the data differently.",
                remedy=REMEDY,
                because=[("this loader has one of the parts", one.training.made)],
            )
            return

    def could_show(self, recording: Recording) -> bool:
        from gpudoctor_rules.data._seen import parts_of

        return bool(parts_of(recording))


def _together(program: Program) -> Event | None:
    """Where the ranks begin to train one model: a wrapper, or a framework that makes one."""
    wrapped = next((event for event in program.events(Wrap) if event.kind.synchronises), None)
    return wrapped or next(iter(program.in_charge), None)


def _is_seeded_by_framework(program: Program, split: Split) -> bool:
    """What trains has set one seed on all ranks by then."""
    seeding = program.seeding_when_made
    return any(each.framework in seeding and each.trains and each.order < split.order for each in program.in_charge)


def _harm(split: Split) -> tuple[str, str]:
    if split.keeps_all:
        return "shuffles", "each takes its shard of a different order, so some samples come twice and others never"
    return "splits", "some ranks train on what others evaluate with"


def _seed(split: Split) -> Repair:
    given = SetArgument(split.location, "seed", ("42",)) if split.by_numpy else None
    return Repair("Seed the split itself", (given or SetArgument(split.location, "generator", SEEDED, 2),))


def _why(program: Program, split: Split) -> tuple[str, Location | None] | None:
    """Why the ranks split differently, and where each sets another seed; None where they surely or maybe do not."""
    if split.own_generator:
        return ("the seed of its generator is a different one", None) if _differs(split.seed) else None
    seed = _last_seed(program, split)
    if seed is not None:
        return ("its seed is a different one", seed.location) if _differs(seed.seed) else None
    return None if may_set_seed(program) else ("no seed is set", None)


def _last_seed(program: Program, split: Split) -> SeedSet | None:
    """The seed that is in force where the split is made, of the generator that it draws from."""
    drawn = "numpy" if split.by_numpy else "torch"
    seeds = [each for each in program.events(SeedSet) if drawn in each.of]
    before = [each for each in seeds if each.order < split.order and not each.condition.excludes(split.condition)]
    return before[-1] if before else None


def _differs(seed: RankAgreement | None) -> bool:
    return seed is not None and bool(seed.surely & (Divergence.RANK | Divergence.LOCAL))
