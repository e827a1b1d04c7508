"""A module assigns layers before the constructor of `nn.Module` has run, or without it.

## What goes wrong

`nn.Module.__init__` makes the tables into which layers and parameters are registered. Without them the first
assignment of a layer ends with `AttributeError: cannot assign module before Module.__init__() call`, and that of a
parameter with `cannot assign parameters before Module.__init__() call`.

## Fix

Make `super().__init__()` the first statement of the constructor. Safe.

## Silent when

The constructor is reached in whichever way (`super(Net, self)`, `nn.Module.__init__(self)`, a mixin, `__new__`,
`__post_init__`); only plain values are assigned before it; a base class could not be read.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html,
https://discuss.pytorch.org/t/attributeerror-cannot-assign-module-before-module-init-call/1446.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.model import ModuleClassFlaw
from gpudoctor.lint.repair.repair import Repair, SuperFirst
from gpudoctor.rule import CrashText, Findings, Program, Rule


class SuperInitMissing(Rule):
    code = "GPU214"
    severity = Severity.ERROR
    errors = ("AttributeError: cannot assign module before Module.__init__() call",)
    fix_safety = Safety.SAFE
    shows_when = ("ended_well",)
    needs = (ModuleClassFlaw,)
    crash = CrashText(
        "before Module.__init__() call", remedy="Call `super().__init__()` first in the `__init__` of this class."
    )

    def in_code(self, program: Program) -> Findings:
        told: set[Value] = set()
        for event in program.events(ModuleClassFlaw):
            # The first assignment ends the program, so a class needs one finding however many layers it has.
            if event.flaw != "super-init-missing" or event.cls in told:
                continue
            told.add(event.cls)
            label = event.cls.label or "the class"
            yield self.found(
                at=event.location,
                message=f"`{label}` {_when(event.attribute)}.",
                remedy="Make `super().__init__()` the first statement of `__init__`.",
                repair=Repair("Call `super().__init__()` first", (SuperFirst(event.location),)),
                because=[("the class begins here", event.cls.place)],
            )


def _when(attribute: str) -> str:
    if attribute:
        return f"has not called `super().__init__()` when it assigns `{attribute}`: making one ends with an error here"
    # Numbers can be assigned; what a call looks for first is missing.
    return "never calls `super().__init__()`: calling one ends with an error"
