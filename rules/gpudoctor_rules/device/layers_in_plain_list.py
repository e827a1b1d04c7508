"""Layers are kept in a Python list or dict, where the module does not find them.

## What goes wrong

A module registers the layers that are assigned to its attributes, not those inside a plain `list`, `tuple` or `dict`.
What is hidden there is missing from `parameters()`: the optimizer never updates it, `model.to(device)` leaves it on the
CPU, DDP neither broadcasts nor averages it, and `state_dict()` does not save it. On the GPU the forward ends with
`Expected all tensors to be on the same device`; on the CPU no error is raised, and each rank keeps its own random
layers.

A local name of the constructor keeps them no longer than the constructor runs: `layer = nn.Linear(8, 8)` where
`self.layer` was meant ends with `AttributeError: 'Net' object has no attribute 'layer'` in the first forward.

## Fix

`nn.ModuleList([...])` or `nn.ModuleDict({...})` around the container. Safe: they are used like the list or the dict.

## Silent when

The layers have no parameters; they are registered as well (`add_module`, `nn.Sequential(*layers)`) before the model is
called, moved or trained; it never is, as where its layers are only read to merge them into others; a single module
is hidden in a list of one, the usual way to keep a teacher out of `parameters()`.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html,
https://discuss.pytorch.org/t/list-of-nn-module-in-a-nn-module/219.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.events.model import ModuleClassFlaw
from gpudoctor.lint.repair.repair import Imported, Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Recording, Rule

REMEDY = "Put them into `nn.ModuleList([...])`, or `nn.ModuleDict({...})` for a dict."


class LayersInPlainList(Rule):
    code = "GPU212"
    severity = Severity.ERROR
    errors = ("AttributeError: 'Net' object has no attribute 'layer'",)
    fix_safety = Safety.SAFE
    # The layers are on the CPU when the first batch comes, so the run ends with an error that names no list.
    shows_when = ("ranks.steps > 1",)
    needs = (ModuleClassFlaw,)

    def in_code(self, program: Program) -> Findings:
        for event in program.events(ModuleClassFlaw):
            if event.flaw == "layer-dropped":
                yield self.found(
                    at=event.location,
                    message=f"`{event.attribute}` is a local name here: what it holds is gone when the "
                    f"constructor returns, and `self.{event.attribute}` ends with an `AttributeError`.",
                    remedy=f"Write `self.{event.attribute} = ...`"
                    + (", without the comma at its end, which makes a tuple." if event.count else "."),
                )
            # A list of one is how a module is hidden on purpose.
            if event.flaw != "plain-container" or event.count < 2:
                continue
            label = event.cls.label or "the class"
            yield self.found(
                at=event.location,
                message=f"The layers in `self.{event.attribute}` are not registered with `{label}`: they are missing "
                "from `parameters()`, so they are not trained, not moved, not synchronised and not saved.",
                remedy=REMEDY,
                repair=_register(event),
            )

    def in_run(self, recording: Recording) -> Findings:
        told: set[Location] = set()
        for hidden in (each for rank in recording.ranks for each in rank.hidden):
            if hidden.place is not None and hidden.place not in told:
                told.add(hidden.place)
                layers = "one layer" if hidden.layers == 1 else f"{hidden.layers} layers"
                yield self.found(
                    hidden.place,
                    f"{layers} in `self.{hidden.attribute}` of `{hidden.model}` got gradients and belong to no "
                    "optimizer: the model does not know them, so they are not trained, not synchronised and not saved.",
                    remedy=REMEDY,
                )
        # On a GPU they are still on the CPU when the first batch comes, which many mistakes may lead to.
        if not told and self.code in recording.suspected:
            yield from self.crashed(
                recording,
                "Expected all tensors to be on the same device",
                because="layers in a list or dict are not moved with the model",
                remedy=REMEDY,
            )


def _register(event: ModuleClassFlaw) -> Repair:
    kind = "ModuleDict" if event.keyed else "ModuleList"
    given = (Imported(f"torch.nn.{kind}"), "(", Source(event.location), ")")
    return Repair(f"Make it an `nn.{kind}`", (Replace(event.location, given),))
