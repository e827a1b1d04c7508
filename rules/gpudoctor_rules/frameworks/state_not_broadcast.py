"""Horovod averages the gradients of models that do not begin alike.

## What goes wrong

`hvd.DistributedOptimizer` averages gradients, and nothing else: unlike `DistributedDataParallel`, it sends no
parameters when it is made. Where each rank (each process, one for each GPU) draws its first weights from a seed of its
own, or only rank 0 loads a checkpoint, the ranks add the same updates to different models, which never become equal. No
error is raised, and the model that is saved has learnt from gradients of others.

## Fix

Before the first step, send the state of rank 0 to all: `hvd.broadcast_parameters(model.state_dict(), root_rank=0)` and
`hvd.broadcast_optimizer_state(optimizer, root_rank=0)`.

## Silent when

All ranks set the same seed before, or load the same state; the program broadcasts something that may be the state, or
leaves that to `hvd.elastic`; the model comes from a library, perhaps with its weights, or is passed to code that could
not be read. A run does not show it: ranks of Horovod meet outside of `torch.distributed`.

## Sources

https://horovod.readthedocs.io/en/stable/pytorch.html; read in the sources of Horovod 0.28, which does not install
beside the torch that the other rules were run with.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.files import LoadState
from gpudoctor.lint.events.knowledge import Escape, UseManaged
from gpudoctor.lint.events.process import SeedSet
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import After, Code, Holds, Imported, Repair
from gpudoctor.rule import Findings, Program, Rule


class StateNotBroadcast(Rule):
    code = "GPU971"
    severity = Severity.ERROR
    fix_safety = Safety.SAFE
    needs = (UseManaged,)

    def in_code(self, program: Program) -> Findings:
        if not program.absence(knows={"horovod"}) or _sends_state(program):
            return
        for wrap in program.events(UseManaged):
            if wrap.call != "horovod.torch.DistributedOptimizer":
                continue
            optimizer = _optimizer_of(wrap)
            model = _model_of(optimizer) if optimizer is not None else None
            if model is None or program.within(model) & program.escaped:
                continue
            loads = [each for each in program.events(LoadState) if each.target.core == model]
            by_some = next((each for each in loads if each.rank_guards), None)
            if by_some is None and (loads or _seeded_alike(program, wrap)):
                continue
            yield self.found(
                wrap.location,
                f"Nothing sends {name_of(model)} of rank 0 to the others: "
                + ("only some ranks load its state" if by_some else "each rank begins with random weights of its own")
                + ", and averaged gradients do not bring the ranks' models together.",
                remedy="Send the state of rank 0 to all ranks before the first step: "
                f"`hvd.broadcast_parameters({model.label or 'model'}.state_dict(), root_rank=0)` and "
                "`hvd.broadcast_optimizer_state(optimizer, root_rank=0)`.",
                because=[
                    ("the model is made here", model.place),
                    ("only some ranks load its state", by_some.location if by_some is not None else None),
                ],
                repair=_broadcast(wrap, model),
            )


def _optimizer_of(wrap: UseManaged) -> Optimizer | None:
    given = wrap.setting("optimizer")
    only = given.single if given is not None else None
    return only if isinstance(only, Optimizer) and only.complete else None


def _model_of(optimizer: Optimizer) -> Module | None:
    """The one model that it trains, where the project has made it."""
    models = {each.core for each in optimizer.modules}
    only = models.pop() if len(models) == 1 else None
    known = isinstance(only, Module) and (only.cls is not None or only.random)
    return only if isinstance(only, Module) and known else None


def _sends_state(program: Program) -> bool:
    """Something that may be the state of a model goes from one rank to the others."""
    elastic = any("elastic" in each.into for each in program.events(Escape) if each.into.startswith("horovod"))
    sent = (each for each in program.events(Collective) if each.hands_on)
    return elastic or not all(map(_has_no_weights, sent))


def _has_no_weights(sent: Collective) -> bool:
    """`hvd.broadcast(torch.tensor(epoch), root_rank=0)`, `hvd.broadcast_optimizer_state(optimizer, root_rank=0)`."""
    given = sent.subject or ()
    return bool(given) and all(each.origin is TensorOrigin.FACTORY or isinstance(each, Optimizer) for each in given)


def _seeded_alike(program: Program, wrap: UseManaged) -> bool:
    seeds = (each.seed for each in program.events(SeedSet) if each.order < wrap.order)
    return any(seed is None or not seed.maybe & Divergence.RANK for seed in seeds)


def _broadcast(wrap: UseManaged, model: Module) -> Repair:
    sent: Code = (Imported("horovod.torch.broadcast_parameters"), "(", Holds(model), ".state_dict(), root_rank=0)")
    return Repair("Send the parameters of rank 0 to all ranks", (After(wrap.location, (sent,)),))
