"""Whether gradients are still there when a backward begins: those of the last step should be gone, those that earlier
backwards have left for the next step should not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from gpudoctor.run.instruments.state import State

_LOOKED_AT = 8
"""Parameters of an optimizer."""
_FIRST_STEPS = 4


class KeptGradients:
    """The gradients of an optimizer between two of its steps."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._held: list[torch.Tensor] = []
        self._places: list[Any] = []
        self._kept = self._left = False
        self._lost = 0

    def follow(self, parameters: list[torch.Tensor]) -> None:
        """A step is over: the first ones, and few of them, are looked at until the next."""
        first = self._state.steps <= _FIRST_STEPS
        self._held = [each for each in parameters if each.requires_grad][:_LOOKED_AT] if first else []
        self._places.clear()
        self._lost = 0

    def before_backward(self) -> None:
        if not self._held:
            return
        there = any(each.grad is not None and bool(each.grad.detach().any()) for each in self._held)
        if self._places:
            self._lost += self._left and not there
        else:
            self._kept = there
        self._places.append(self._state.recorder.place())

    def after_backward(self) -> None:
        """What is not finite is thrown away by a scaler, and rightly."""
        grads = [each.grad.detach() for each in self._held if each.grad is not None]
        self._left = any(bool(grad.any()) for grad in grads) and all(bool(grad.isfinite().all()) for grad in grads)

    def tell(self) -> None:
        """The next step is over."""
        if self._held and self._places:
            # The gradients of another loss may be meant for somebody else.
            alike = all(each == self._places[0] for each in self._places)
            lost, place = self._lost if alike else 0, self._places[0]
            backwards = len(self._places)
            self._state.write("between steps", kept=self._kept, backwards=backwards, lost=lost, place=place)
        self._held = []
