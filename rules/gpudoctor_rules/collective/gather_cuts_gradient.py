"""A loss is computed from gathered tensors through which no gradient flows.

## What goes wrong

`dist.all_gather` copies numbers: what it fills has no graph, whatever graph the tensor had that was passed in. For a
contrastive loss over the features of all ranks (processes, one for each GPU) every gathered feature is a constant, also
those that this rank has computed itself. Training goes on without an error, with half of the gradient missing, and is
worse than on one GPU. Where nothing else leads to the model it ends with `element 0 of tensors does not require grad
and does not have a grad_fn`; where only a temperature does, DDP waits for all other gradients, and the second step ends
with `Expected to have finished reduction in the prior iteration before starting a new one`.

## Fix

Put the rank's own tensor back into the list, `gathered[dist.get_rank()] = features`, or gather with a function that
passes gradients on: `torch.distributed.nn.functional.all_gather`, or an `autograd.Function` of your own. Which of them
is meant changes the gradient, so nothing is applied.

## Silent when

An item of the list is set after the gathering, or the own tensor is joined to it; the gathering happens under `no_grad`
or what is gathered has no graph, such as keys, targets and metrics; it is not known whether it has one.

## Sources

HobbitLong/SupContrast#26, vturrisi/solo-learn#258, mlfoundations/open_clip#616, facebookresearch/SLIP#31; run on two
CPU ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import CrashText, Findings, Program, Rule


class GatherCutsGradient(Rule):
    code = "GPU507"
    severity = Severity.ERROR
    errors = ("RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn",)
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (Backward,)
    looks_at = ((Backward, "cuts"),)
    crash = CrashText(
        ("does not require grad", "Expected to have finished reduction in the prior iteration"),
        because="a gather returns copies that no gradient flows through",
        remedy="Put the rank's own tensor back in its place, or use `torch.distributed.nn.all_gather`.",
        # Many ways lead to a loss without a graph.
        when="suspected",
    )

    def in_code(self, program: Program) -> Findings:
        # Alone, nothing is gathered.
        passing = {each.location: each.effect.passes_gradients for each in program.events(Collective)}
        for event in program.events(Backward):
            for mark in sorted(event.cuts, key=lambda each: each.place):
                option = passing.get(mark.place)
                passed = f"`{option}=True`" if option else "`torch.distributed.nn.functional.all_gather`"
                yield self.found(
                    # Everything that follows is right, if what was gathered had a graph.
                    at=mark.place,
                    message=f"What is gathered here has no graph: in the loss, {name_of(mark, 'it')} counts as a "
                    "constant on every rank, and the gradient that should flow through it is missing.",
                    remedy="Put the rank's own tensor back in its place, `gathered[dist.get_rank()] = ...`, or gather "
                    f"with {passed}.",
                    because=[("the loss that is made of it is backpropagated here", event.location)],
                )
