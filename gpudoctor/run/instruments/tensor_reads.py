"""Where the program asks tensors for their numbers, how often, and whether these are results of its own collectives.

Asking makes Python wait for the GPU anyway, so that nothing is added by looking at the answer.
"""

from __future__ import annotations

import functools
import math
import sys
from typing import Any

import torch
from torch.utils.data import get_worker_info

from gpudoctor.run.instruments import collective_calls
from gpudoctor.run.instruments.collective_calls import Exchanges, SumOnDevice
from gpudoctor.run.instruments.state import State
from gpudoctor.run.places import is_own
from gpudoctor.run.stand_ins import standing_for

At = tuple[str, int]
"""A line that asks."""
_METHODS = ("item", "tolist", "__float__")
_VALUE = "_get_value"
"""By which optimizers of torch ask."""
_PRINTING = ("torch/_tensor.py", "torch/_tensor_str.py")
"""What asks for the line of the program that prints a tensor."""
_MOST_READS = 50_000
"""After so many we go away: more would tell nothing new, and cost."""
_MOST_PLACES = 200
_MOST_NUMBERS = 8
"""Answers of one line that are kept; of those that come from a collective, as many again."""
_MOST_COMPARED = 64
"""Answers of one line that are compared with what was added up shortly before."""
_NEARLY = 1e-5


def watch(state: State) -> None:
    """Count the questions of each line, keep the first answers, and compare them with what was added up."""
    reads = _Reads(state, collective_calls.watch(state))
    for name in _METHODS:
        setattr(torch.Tensor, name, _WatchedRead(getattr(torch.Tensor, name), reads))
    state.recorder.guarded(_pass_by_optimizers)()
    state.at_end.append(reads.write)
    # Calls between the graphs are traced, and would be with our functions in them.
    state.before_compiling.append(_leave)


def _pass_by_optimizers() -> None:
    """Have optimizers ask torch itself. They do so for each parameter, which would cost more than all other instruments
    and is no question of the program's."""
    for module in _optimizers():
        value, item = vars(module)[_VALUE], torch.Tensor.item

        @standing_for(value)
        def watched(given: Any, value: Any = value, item: Any = item) -> Any:
            # Who compiles them has made us leave.
            try:
                return item(given)
            except TypeError:
                # A plain number, for which few ask.
                return value(given)

        setattr(module, _VALUE, watched)


def _optimizers() -> list[Any]:
    loaded = [module for name, module in sys.modules.items() if name.startswith("torch.optim.")]
    return [module for module in loaded if _VALUE in vars(module)]


class _WatchedRead:
    """A method of tensors. Those who look for it in the class find that of torch."""

    def __init__(self, method: Any, reads: _Reads) -> None:
        self._method = method
        self._reads = reads
        self._foreign: set[str] = set()
        self._before = reads.state.recorder.guarded(reads.before)
        self._after = reads.state.recorder.guarded(reads.after)

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        if tensor is None:
            return self._method
        frame = sys._getframe(1)
        path = frame.f_code.co_filename
        # By path, whose hash is known: that of code is not.
        if path in self._foreign:
            return self._method.__get__(tensor)
        if not is_own(path) and not path.endswith(_PRINTING):
            self._foreign.add(path)
            return self._method.__get__(tensor)
        # Not the frame: who keeps the method would keep all that lives there.
        return functools.partial(self._ask, tensor, (path, frame.f_lineno))

    def _ask(self, tensor: torch.Tensor, at: At) -> Any:
        early = self._before(tensor) if self._reads.exchanges.under_way else None
        answer = self._method(tensor)
        self._after(tensor, answer, early, at)
        return answer


class _AskingLine:
    """One line of the program that asks. `steps` are those after which it has asked."""

    def __init__(self, place: list[Any], device: str) -> None:
        self.place = place
        self.device = device
        self.count = 0
        self.steps = 0
        self.step = -1
        self.results: list[dict[str, Any]] = []
        self.compared = 0
        self.early: tuple[Any, ...] | None = None
        self.told = 0


class _Reads:
    def __init__(self, state: State, exchanges: Exchanges) -> None:
        self.state = state
        self.exchanges = exchanges
        self._made = 0
        self._lines: dict[tuple[Any, ...], _AskingLine] = {}
        self._known: dict[At, _AskingLine | None] = {}

    def before(self, tensor: torch.Tensor) -> tuple[Any, ...] | None:
        """A collective that is under way in this tensor."""
        return self.exchanges.unfinished(tensor)

    def after(self, tensor: torch.Tensor, answer: Any, early: tuple[Any, ...] | None, at: At) -> None:
        """Note what was asked, and what was answered."""
        self._made += 1
        if self._made > _MOST_READS:
            _leave()
        if get_worker_info() is not None:
            return
        line = self._line(at, tensor)
        if line is None:
            return
        line.count += 1
        line.steps += line.step != self.state.steps
        line.step = self.state.steps
        news = early is not None and line.early is None
        line.early = line.early or early
        if isinstance(answer, float) and math.isfinite(answer):
            news |= self._keep(line, answer)
        # The lines become rarer as a line goes on asking.
        if news or line.count & (line.count - 1) == 0:
            self._write(line)

    def write(self) -> None:
        """Write down what was not written yet."""
        for line in self._lines.values():
            if line.told < line.count:
                self._write(line)

    def _line(self, at: At, tensor: torch.Tensor) -> _AskingLine | None:
        if at in self._known:
            return self._known[at]
        place = self.state.recorder.place()
        line = self._lines.get(tuple(place)) if place else None
        if place and line is None and len(self._lines) < _MOST_PLACES:
            line = self._lines[tuple(place)] = _AskingLine(place, tensor.device.type)
        # A line of a library asks for many lines of the program.
        if is_own(at[0]):
            self._known[at] = line
        return line

    def _keep(self, line: _AskingLine, answer: float) -> bool:
        if len(line.results) >= _MOST_NUMBERS or line.compared >= _MOST_COMPARED or not self.exchanges.sums:
            return False
        sums = [each for each in self.exchanges.sums if each.about["step"] >= self.state.steps - 1]
        if not sums:
            return False
        line.compared += 1
        for each in reversed(sums):
            relation = _relation(each, answer, self.exchanges.ranks)
            if relation:
                self._tell(each)
                found = {"step": self.state.steps, "value": answer, "sum": each.number, "relation": relation}
                line.results.append(found)
                return True
        return False

    def _tell(self, each: SumOnDevice) -> None:
        if not each.told:
            each.told = True
            before, after = _numbers(each)
            self.state.write("sum", before=before, after=after, dropped=each.dropped, **each.about)

    def _write(self, line: _AskingLine) -> None:
        line.told = line.count
        early, started = line.early or ("", None)
        self.state.write(
            "read",
            place=line.place,
            device=line.device,
            count=line.count,
            steps=line.steps,
            results=line.results,
            early=early,
            started=started,
        )


def _numbers(each: SumOnDevice) -> tuple[float, float]:
    """The number of this rank, and the result; copied to the host once."""
    ask = torch._C.TensorBase.item
    if isinstance(each.before, torch.Tensor):
        each.before, each.after = ask(each.before), ask(each.after)
    return each.before, each.after


def _relation(each: SumOnDevice, answer: float, ranks: int) -> str:
    """How a number that the program reads comes from one that the ranks have added up."""
    before, after = _numbers(each)
    # Where all ranks but one hold nothing, the sum is what one of them had.
    if not answer or (_near(before, after) and each.about["call"] != "reduce"):
        return ""
    found = {"result": after, "mean": after / ranks, "own": before, "part": before / ranks}
    return next((name for name, number in found.items() if _near(answer, number)), "")


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _NEARLY * max(abs(one), abs(other))


def _leave() -> None:
    for name in _METHODS:
        if isinstance(vars(torch.Tensor).get(name), _WatchedRead):
            # What torch has lies in a class below.
            delattr(torch.Tensor, name)
    for module in _optimizers():
        setattr(module, _VALUE, getattr(vars(module)[_VALUE], "__wrapped__", vars(module)[_VALUE]))
