"""Every rank evaluates the whole validation set, each for itself.

## What goes wrong

The validation loader has no sampler that distributes the data, so each rank (each of the processes, one for each GPU)
goes over all of it and comes to the same result. With eight GPUs the work is done eight times, and the evaluation takes
as long as on one GPU; averaging the eight equal numbers changes nothing.

## Fix

Give the loader `sampler=DistributedSampler(held_out, shuffle=False)`, and sum counts and errors over the ranks with
`dist.all_reduce` before they are divided. The sampler repeats a few samples so that all shards are equally long: where
the last digit matters, leave them out again. No automatic fix.

## Silent when

Only some ranks evaluate (GPU807); the loop is left before the last batch; the loader, its sampler or its data set is
not fully known, may stream, or is cut by the rank; a framework distributes the data; the program does not train the
model; the ranks do not train one model.

## Sources

https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler, pytorch/examples#461.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.questions.whole_data import goes_over_all
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.throughput._evaluation import evaluations


class EvaluationOnEveryRank(Rule):
    code = "GPU808"
    severity = Severity.PERF
    shows_when = ("distributed", "ranks.evaluations")
    of_ranks = True
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        if not program.launched_in_several or program.cut_short or not _trains_one_model(program):
            return
        for each in evaluations(program):
            loader = each.loader
            if not program.by_every_rank(each.call) or not _whole(program, loader, each.start):
                continue
            given = _name_of_data(loader)
            data = f"`{given}`" if given else "its data set"
            yield self.found(
                loader.place,
                f"Every rank evaluates all of {data}: `{loader.label}` has no sampler that shards it, so more GPUs "
                "do not make the evaluation faster.",
                remedy=f"Pass `sampler=DistributedSampler({given or '...'}, shuffle=False)`, "
                "and sum the results over the ranks before dividing them.",
                because=[("the ranks evaluate here", each.loop.location)],
            )

    def in_run(self, recording: Recording) -> Findings:
        firsts = [rank.evaluations[0] for rank in recording.ranks if rank.evaluations and rank.steps]
        if not recording.distributed or len(firsts) < len(recording.ranks):
            return
        drawn = {frozenset(each.places or ()) for each in firsts if each.kept_all}
        if len(drawn) == 1 and firsts[0].size and len(drawn.pop()) == firsts[0].size and firsts[0].made is not None:
            yield self.found(
                firsts[0].made,
                f"Every rank evaluated all {firsts[0].size} samples: {len(firsts)} ranks took as long as one would.",
                remedy="Give the loader a `DistributedSampler` with `shuffle=False`, and reduce the results.",
            )


def _trains_one_model(program: Program) -> bool:
    """The ranks share the work of training, and leave the loaders of the evaluation to the program."""
    # An engine deals out what it trains on, at most.
    if any(event.shares_data and not event.engine for event in program.events(UseManaged)):
        return False
    averaging = any(event.averages for event in program.events(Wrap))
    return averaging or any(event.engine for event in program.events(UseManaged))


def _name_of_data(loader: Loader) -> str:
    """What the program calls the data set; empty where it has only the name of its class."""
    only = loader.dataset.single if loader.dataset is not None else None
    label = only.label if only is not None else ""
    plain = label.replace(".", "").isidentifier() and not label.rpartition(".")[2][:1].isupper()
    return label if plain else ""


def _whole(program: Program, loader: Loader, start: Iterate) -> bool:
    """All of the data set lies before each rank that evaluates."""
    return loader not in program.escaped and goes_over_all(loader, start.condition)
