"""One file is written of a sharded model, with the shard of one rank in it.

## What goes wrong

After `fully_shard` (FSDP2), `model.state_dict()` gathers nothing: each rank (each process, one for each GPU) gets its
own part of each parameter, as a `DTensor`. `if rank == 0: torch.save(model.state_dict(), path)`, as it is right with
`DistributedDataParallel`, writes the shard of rank 0 alone, without an error. What is lost shows when the file is
loaded: `Error(s) in loading state_dict`, or a model with half of its weights.

ZeRO's third stage (DeepSpeed) leaves empty tensors in the model between its steps: a file that is written of it says
`size mismatch ... copying a param with shape torch.Size([0])` when it is loaded.

## Fix

Gather the state on all ranks, and write it on one: `get_model_state_dict(model,
options=StateDictOptions(full_state_dict=True, cpu_offload=True))`. Or let all ranks write their shards with
`torch.distributed.checkpoint.save`, which needs no test on the rank. No automatic fix.

## Silent when

The entries of the state were replaced (`full_tensor()`); each rank writes to a path of its own; the model is sharded on
some paths only, or by `FullyShardedDataParallel`, whose `state_dict()` gathers; a framework that saves by itself is in
charge; of DeepSpeed, its configuration is not known.

## Sources

https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html,
https://docs.pytorch.org/docs/stable/distributed.checkpoint.html; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import ACCELERATE

if TYPE_CHECKING:
    from gpudoctor.api.pack import Value
    from gpudoctor.run.recording import Process, Written


class ShardSavedAsModel(Rule):
    code = "GPU934"
    severity = Severity.ERROR
    errors = ("RuntimeError: Error(s) in loading state_dict for Net",)
    stops = True
    shows_when = ("distributed", "ranks.saves")
    of_ranks = True
    needs = (Save,)
    looks_at = ((Save, "shards"),)

    def in_code(self, program: Program) -> Findings:
        if not program.launched_in_several or program.managed_by - program.leaving("saving"):
            return
        for save in program.events(Save):
            if not save.shards or save.collective or not save.on_one_path:
                continue
            alone = bool(save.rank_guards) or save.told_who
            if not alone and not program.by_every_rank(save):
                continue
            model = _model_of(program, save)
            if save.emptied:
                yield self._emptied(program, save, model)
                continue
            who = f"{ranks_in_words(save)} writes" if alone else "every rank writes to the same file"
            yield self.found(
                save.location,
                f"{who[:1].upper()}{who[1:]}, and the state of {name_of(model)} is the shard of "
                f"{'that' if alone else 'each'} rank: the other shards are lost.",
                remedy=_remedy(program, model),
                because=[("sharded here", _sharded_at(program, model))],
            )

    def in_run(self, recording: Recording) -> Findings:
        told: set[Location] = set()
        for rank in recording.ranks:
            for save in rank.saves:
                others = [each for each in recording.ranks if each is not rank]
                apart = all(_wrote_elsewhere(each, save) for each in others)
                if save.shards and others and not apart and save.place is not None and save.place not in told:
                    told.add(save.place)
                    yield self.found(
                        save.place,
                        f"Rank {rank.rank} wrote `{save.path}` with {save.shards} shards of its own, and nobody wrote "
                        "those of the other ranks.",
                        remedy=REMEDY,
                    )

    def _emptied(self, program: Program, save: Save, model: Value | None) -> Finding:
        """ZeRO's third stage: an engine of DeepSpeed, or one that Accelerate makes."""
        owner = _accelerator(program)
        gathers = (
            f"`{in_code(owner, 'accelerator')}.get_state_dict({in_code(model, 'model')})`"
            if owner is not None
            else "by the engine's `save_16bit_model`"
        )
        return self.found(
            save.location,
            f"ZeRO's third stage keeps the parameters of {name_of(model)} apart, and leaves empty tensors in it: the "
            "file holds `torch.Size([0])` for each of them.",
            remedy=f"Gather the state on all ranks, {gathers}, and let one write it. That needs "
            '`"stage3_gather_16bit_weights_on_model_save": true` in the configuration.',
        )


REMEDY = (
    "Gather it on all ranks, `get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, "
    "cpu_offload=True))`, and write that on rank 0; or let all ranks write with `torch.distributed.checkpoint.save`."
)


def _remedy(program: Program, model: Value | None) -> str:
    owner = _accelerator(program)
    if owner is None:
        return REMEDY
    name = in_code(owner, "accelerator")
    return (
        f"Gather it on all ranks, `{name}.get_state_dict({in_code(model, 'model')})`, and write that on rank 0; or let "
        f"all ranks write with `{name}.save_state`."
    )


def _accelerator(program: Program) -> Value | None:
    charges = (each.made for each in program.events(UseManaged) if each.framework == ACCELERATE)
    return next((each for each in charges if each is not None), None)


def _model_of(program: Program, save: Save) -> Value | None:
    """The model whose state it is."""
    owners = [each.state_of.core for _, each in save.states]
    return next((each for each in owners if _sharded_at(program, each) is not None), next(iter(owners), None))


def _sharded_at(program: Program, model: Value | None) -> Location | None:
    if model is None:
        return None
    wraps = (each for each in program.events(Wrap) if each.wrapper == each.inner)
    return next((each.location for each in wraps if each.inner in program.within(model)), None)


def _wrote_elsewhere(other: Process, save: Written) -> bool:
    return any(each.shards and each.step == save.step and each.path != save.path for each in other.saves)
