"""A distributed sampler is told the wrong rank, so some shards of the data are read twice and others never.

## What goes wrong

A `DistributedSampler` splits the data into `num_replicas` shards, and each rank (each process, one for each GPU) takes
the one with its number. With `rank=0` for everybody all ranks read the first shard and nobody reads the others, and
with `num_replicas=1` as well, each rank reads everything. The local rank starts at 0 on each node, so with two nodes
half of the shards are read twice. With `num_replicas` and `rank` the wrong way round the shards make no sense at all.
With a `seed` that differs between ranks each one shuffles differently, and shards overlap; the sampler that Lightning
puts into a loader takes the seed that `seed_everything` was last given. Where each rank holds a part of the data of its
own, the sampler splits that part again, and one share of it is all that is ever read. All of this is silent, except for
a number that is too large: `ValueError: Invalid rank 2, rank should be in the interval [0, 1]`.

## Fix

Leave `num_replicas` and `rank` out: the sampler asks the process group. Unsafe, because each rank then sees different
data; that is the point. In `seed=args.seed + rank`, the part that all ranks share is kept.

## Silent when

The rank comes from the process group, a launcher's `RANK`, an argument or a computation; `mp.spawn` in a program that
does not number its nodes, where the local rank is the rank; a mesh or a tensor-parallel group, whose ranks must read
the same data; one replica for an evaluation, which then sees all of the data, for data of which each rank has read its
own part, or in a group of one; what belongs to a command that trains in one process, beside one that starts the ranks;
numbers for both in a test, which plays several ranks in one process.

## Sources

https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler, NVlabs/LongLive#71,
innnky/so-vits-svc#70.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind
from gpudoctor.lint.domain.value import Value, Values
from gpudoctor.lint.events.data_loading import MakeSampler
from gpudoctor.lint.events.event_context import agreement_on
from gpudoctor.lint.events.knowledge import Escape, Prepare
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.process import InitGroup, SeedSet
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.made_of import agreed_part
from gpudoctor.lint.repair.repair import Code, Either, Holds, Imported, RemoveArgument, Repair, SetArgument, Source
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import NO_SUCH_RANK
from gpudoctor_rules.data._passes import samplers_of, trained_with

FROM_GROUP = "Leave out `num_replicas` and `rank`: the sampler asks the process group for both."


class SamplerRankHardCoded(Rule):
    code = "GPU305"
    severity = Severity.ERROR
    shows_when = ("all_read_data",)
    errors = NO_SUCH_RANK
    fix_safety = Safety.UNSAFE
    needs = (MakeSampler, Prepare)

    def in_code(self, program: Program) -> Findings:
        program = program.of_ranks
        yield from self._of_lightning(program)
        # A framework may number its processes in another way, or set the sampler's rank later. What these leave to the
        # program, they read as it is.
        if program.managed_by - program.leaving("loaders") - program.leaving("samplers"):
            return
        for event in program.events(MakeSampler):
            sampler = event.sampler
            if sampler.distributed and not program.without_others(event):
                yield from self._of(program, event)

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.data._seen import shared_out_again

        told = [rank.training_passes[0] for rank in recording.ranks if rank.training_passes]
        if not recording.distributed or len(told) < len(recording.ranks) or told[0].made is None:
            return
        shares = [(each.replicas, each.sampler_rank) for each in told if each.sampler_rank is not None]
        divided = any(rank.cut_up for rank in recording.ranks)
        if len(shares) == len(told) and len(set(shares)) < len(shares) and not _whole_for_groups(shares, divided):
            yield self.found(
                told[0].made,
                f"The samplers of {len(shares)} ranks were made for rank "
                f"{' and '.join(str(rank) for _, rank in shares)}: "
                "some shard is trained on several times, and others never.",
                remedy="Leave `rank` out, or give `rank=dist.get_rank()`.",
            )
        elif len(shares) == len(told) and len({each.seed for each in told}) > 1 and all(each.shuffle for each in told):
            yield self.found(
                told[0].made,
                f"The samplers of the ranks shuffle with the seeds {' and '.join(str(each.seed) for each in told)}: "
                "their shards overlap, and other samples are never trained on.",
                remedy="Leave `seed` out, or give all ranks the same.",
            )
        elif (again := shared_out_again(recording)) is not None and again.made is not None:
            yield self.found(
                again.made,
                f"Each rank has a part of the data of its own, {again.size} samples, and its sampler takes one of "
                f"{again.replicas} shares of that: in each epoch the other shares are read by nobody.",
                remedy="Hand the sampler all of the data, or shuffle each part without it (`shuffle=True`).",
            )

    def _of_lightning(self, program: Program) -> Findings:
        calls = [each for each in program.events(SeedSet) if each.call.endswith("seed_everything")]
        for event in program.events(Prepare) if calls and program.launched_in_several else ():
            given, made = event.given, event.made
            if not isinstance(given, Loader) or not isinstance(made, Loader) or made.managed != "lightning":
                continue
            # `use_distributed_sampler=False`
            if event.told:
                continue
            seeded = next((each for each in reversed(calls) if each.order < event.order), None)
            # A sampler that draws for itself is given the seeds of torch.
            if seeded is None or given.sampler is not None or not given.shuffles(event.condition):
                continue
            if seeded.seed is not None and seeded.seed.surely & Divergence.RANK:
                yield self.found(
                    seeded.location,
                    "Each rank sets a seed of its own here, and the sampler that Lightning makes shuffles with it: the "
                    "shards of the ranks overlap and some samples are never read.",
                    remedy="Call `seed_everything` with one seed for all ranks, and after it "
                    "`torch.manual_seed(seed + rank)` for what each should draw for itself.",
                    because=[("a sampler with this seed is put into this loader", given.place)],
                )
                return

    def _of(self, program: Program, event: MakeSampler) -> Findings:
        sampler, alone = event.sampler, _is_alone(program, event)
        rank, replicas = _only(sampler.rank), _only(sampler.replicas)
        alone_told = replicas is not None and replicas.in_python == 1
        number = rank.in_python if rank is not None else None
        # Asked first: swapped arguments would otherwise be taken for a wrong rank.
        if isinstance(replicas, Rank) and _is_size(program, rank):
            yield self.found(
                at=sampler.place,
                message=f"`{sampler.label}` gets the rank as `num_replicas` and the number of ranks as `rank`: the two "
                "arguments are swapped.",
                remedy=FROM_GROUP,
                repair=_swap(sampler),
            )
        # With one replica, 0 is the right and only rank.
        elif alone_told and number == 0 and not alone and _feeds_training(program, sampler):
            yield self.found(
                at=sampler.place,
                message=f"`{sampler.label}` is told that there is one process: every rank reads all of the data, so "
                "more GPUs do not shorten the epoch.",
                remedy=FROM_GROUP,
                repair=_ask_group(sampler),
            )
        elif isinstance(number, int) and not alone_told and not _plays_ranks(program, replicas):
            yield self.found(
                at=sampler.place,
                message=f"The rank of `{sampler.label}` is written as a number: every process reads shard "
                f"{number} and no process reads the others.",
                remedy=FROM_GROUP,
                repair=_ask_group(sampler),
            )
        elif isinstance(rank, Rank) and _breaks_on_two_nodes(program, rank, replicas):
            yield self.found(
                at=sampler.place,
                message=f"`{sampler.label}` is told the local rank, which starts at 0 on each node: with two nodes "
                "half of the shards are read twice and half never.",
                remedy=FROM_GROUP,
                because=[("the local rank is read here", rank.place)],
                repair=_ask_group(sampler),
                # On one node it works, and most programs never leave it.
                severity=Severity.WARNING,
            )
        # Apart from the rank: a sampler may have both mistakes. Without shuffling the seed is never used.
        if sampler.may_shuffle and (_differs(sampler) or _drawn_apart(program, event)):
            yield self.found(
                at=sampler.place,
                message=f"Each rank shuffles with a different seed in `{sampler.label}`, so the shards of the ranks "
                "overlap and some samples are never read.",
                remedy="Give `seed` the same number on all ranks.",
                needs=event.seed_is_own_where,
                doubt="With a seed from the settings all ranks have the same." if event.seed_is_own_where else "",
                repair=_same_seed(sampler),
            )


def _only(values: Values | None) -> Value | None:
    return values.single if values is not None else None


def _ask_group(sampler: Sampler) -> Repair:
    """Without the two arguments the sampler asks the process group; where others follow them, they are asked for."""
    at, title = sampler.place, "Let the sampler ask the process group"
    size, rank = Imported("torch.distributed.get_world_size"), Imported("torch.distributed.get_rank")
    given = Repair(title, (SetArgument(at, "num_replicas", (size, "()"), 1), SetArgument(at, "rank", (rank, "()"), 2)))
    left_out = RemoveArgument(at, "num_replicas", 1, if_given=True, also=(("rank", 2),))
    return Repair(title, (left_out,), otherwise=given)


def _same_seed(sampler: Sampler) -> Repair:
    """Of `args.seed + rank` the part that all ranks have in common; where there is none, the sampler's own seed."""
    at, title = sampler.place, "Give all ranks the same seed"
    left_out = Repair(title, (RemoveArgument(at, "seed", 4),))
    seed = _only(sampler.seed)
    number = agreed_part(seed) if seed is not None else None
    if number is None:
        return left_out
    common: Code = (repr(number.in_python),) if number.is_constant else (Holds(number),)
    return Repair(title, (SetArgument(at, "seed", common, 4),), otherwise=left_out)


def _swap(sampler: Sampler) -> Repair:
    at = sampler.place
    first = Either(((Source(at, "1"),), (Source(at, "num_replicas"),)))
    second = Either(((Source(at, "2"),), (Source(at, "rank"),)))
    steps = (SetArgument(at, "num_replicas", (second,), 1), SetArgument(at, "rank", (first,), 2))
    return Repair("Swap the two arguments", steps)


def _is_alone(program: Program, made: MakeSampler) -> bool:
    """Its process has made a group of one: `worker(rank=0, world_size=1)` where starting several has failed."""
    before = [event for event in program.events(InitGroup) if event.order < made.order]
    return bool(before) and before[-1].number_of_ranks == 1


def _is_size(program: Program, rank: Value | None) -> bool:
    """What is given as the rank is the number of processes, or a number that is written there."""
    if rank is not None and (isinstance(rank, Size) or rank.is_constant):
        return True
    # `mp.spawn(worker, args=(args.gpus,))`: the same setting is the group's `world_size`.
    sizes = (event.world_size for event in program.events(InitGroup))
    return rank is not None and any(size is not None and size.single == rank for size in sizes)


def _feeds_training(program: Program, sampler: Sampler) -> bool:
    """Several processes learn from what it picks of the same data: an evaluation may well be meant to see all of it."""
    passes = trained_with(program) if program.distributed and program.whole else {}
    # One replica is right where each rank has its own data already: files of its number, or a cut made by hand.
    if any(map(_is_own, sampler.dataset or ())):
        return False
    return any(sampler in (samplers_of(loader, each.when) or ()) for loader, each in passes.items())


def _is_own(data: Value) -> bool:
    return data.sharded or bool(data.divergence & Divergence.RANK)


def _plays_ranks(program: Program, replicas: Value | None) -> bool:
    """A test makes the samplers of several ranks in one process."""
    return replicas is not None and replicas.is_constant and not (program.whole and program.distributed)


def _breaks_on_two_nodes(program: Program, rank: Rank, replicas: Value | None) -> bool:
    if rank.kind is not RankKind.LOCAL:
        return False
    over_nodes = replicas is None or replicas.counts(SizeKind.WORLD)
    # A spawned process counts like its node, and a count of devices belongs to one node: both mean a single one, but
    # where the program itself counts its nodes.
    if rank.source is RankSource.SPAWN_INDEX:
        several = [event for event in program.events(InitGroup) if event.counts_nodes]
        return any(over_nodes or replicas == event.told_size for event in several)
    return program.world is LaunchWorld.TORCHRUN and over_nodes


def _drawn_apart(program: Program, made: MakeSampler) -> bool:
    """Each process has drawn its seed for itself, or asked its clock: `seed = random.randint(1, 10000)`."""
    # What the process that starts the others has drawn may have been handed on to all.
    if program.spawned or not program.by_every_rank(made):
        return False
    seeds = (each.seed for each in program.events(SeedSet) if each.order < made.order)
    # Seeded alike, the ranks draw alike.
    if any(seed is None or not seed.is_own for seed in seeds):
        return False
    # Code that was not read may have seeded them.
    asked = any(event.sets_seed for event in program.events(Escape))
    seed = agreement_on(made.sampler.seed)
    return seed is not None and seed.is_own and not asked


def _differs(sampler: Sampler) -> bool:
    # `seed + rank` is right for augmentation and wrong here: the shares are cut from one common order.
    seed = agreement_on(sampler.seed)
    return seed is not None and bool(seed.surely & Divergence.RANK)


def _whole_for_groups(shares: Sequence[tuple[int | None, int]], divided: bool) -> bool:
    """Each shard is read by equally many ranks, as where a model is divided among those; by all of them only where one
    was seen to be `divided`."""
    readers = Counter(shares)
    replicas = {count for count, _ in shares}
    return (
        len(replicas) == 1
        and (divided or len(readers) > 1)
        and replicas == {len(readers)}
        and len(set(readers.values())) == 1
    )
