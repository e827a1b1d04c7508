"""Nothing divides the loss of a Trainer's own `compute_loss`, though its gradients are accumulated.

## What goes wrong

Where a model takes the number of items of a whole step (`num_items_in_batch`), the Trainer of Transformers leaves the
division to the loss: it does not divide by `gradient_accumulation_steps`. Language models do, and since version 5 those
that classify texts and tokens. A `compute_loss` that averages over its own batch and looks at no `num_items_in_batch`
is then summed over k batches: gradients and the logged loss are k times too large. No error is raised.

## Fix

Divide by what is passed, `loss.sum() / num_items_in_batch`; or say that the loss is not divided:
`self.loss_is_scaled_for_ga = False` (since 5.x), `self.model_accepts_loss_kwargs = False` (since 4.46) after
`super().__init__(...)`. No automatic fix.

## Silent when

Nothing is accumulated, or it is not known over how many batches; the loss uses `num_items_in_batch`, or passes it on;
the program divides by the number of batches itself; the model is another one, or no language model where
the project asks for a Transformers before version 5; `compute_loss` does not take `num_items_in_batch`, as it was
before version 4.46.

## Sources

huggingface/transformers#35438, huggingface/transformers#37474; `Trainer.training_step` of transformers 5.23.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.events.training_step import OwnLoss
from gpudoctor.rule import Findings, Program, Rule


class CustomLossNotScaled(Rule):
    code = "GPU951"
    severity = Severity.WARNING
    needs = (OwnLoss,)

    def in_code(self, program: Program) -> Findings:
        for event in program.events(OwnLoss):
            number = event.accumulated
            if number is None or number < 2:
                continue
            loss = event.loss
            # Divided by something: the program knows of it.
            if not isinstance(loss, Tensor) or loss.over is not None or not event.counted:
                continue
            trainer = "The Trainer" if event.in_all_versions else "Since Transformers 5 the Trainer"
            yield self.found(
                event.made_at,
                f"{trainer} leaves the division to this loss, which ignores `num_items_in_batch`: gradients of "
                f"{number} batches are summed, and are {number} times too large.",
                remedy="Divide by `num_items_in_batch`, or write `self.model_accepts_loss_kwargs = False` after "
                "`super().__init__(...)`, so that the Trainer divides.",
                because=[("it is trained here", event.location)],
                doubt="Batches without labels have no such number, and the Trainer divides.",
            )
