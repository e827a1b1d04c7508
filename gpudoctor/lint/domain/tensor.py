"""Tensors, as far as rules ask: where from, which graph, whether this rank alone has seen the data."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from typing import Any

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import Library
from gpudoctor.lint.domain.symbols import Attribute, IsInstance
from gpudoctor.lint.domain.value import Allocated, Value, Values, singleton
from gpudoctor.lint.flow.condition import Divergence, Literal
from gpudoctor.record import dataclass, field, replace


class TensorOrigin(enum.Enum):
    """How a tensor came to be."""

    BATCH = "batch"
    """An item of a loader, or a part of one."""
    OUTPUT = "output"
    """What a module's forward returned, or was computed from it."""
    FACTORY = "factory"
    """`torch.zeros` and its kind."""
    PARAMETER = "parameter"
    GRADIENT = "gradient"
    OTHER = "other"


class Extent(enum.Enum):
    """How many numbers a tensor surely holds, or what decides on that."""

    NUMBER = "a single number"
    EACH_GPU = "one number for each GPU"
    """What `DataParallel` gathers where the forward returned a single number."""
    CHOICE = "one answer for each number of another tensor"
    OF_DATA = "as many as the numbers of another tensor say"


class MarkKind(enum.Enum):
    """What a collective has made of a tensor."""

    SUM = "the sum of what are averages of each rank"
    ON_ONE_RANK = "complete on one rank only"
    WITHOUT_GRAPH = "gathered, and cut off from the graph"


@dataclass(frozen=True)
class Mark(Value):
    """What a collective left in a tensor, at `place`; it lies among the shards of all that is computed from that."""

    kind: MarkKind
    place: Location
    label: str = field(default="", compare=False)
    rank: Values | None = field(default=None, compare=False)
    """Where it is complete, for what is so on one rank only."""


_MAPPINGS, _SEQUENCES = frozenset({"dict", "Mapping"}), frozenset({"list", "tuple", "Sequence"})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tensor(Allocated):
    """A tensor.

    `device` is None where it is not known. `forwards` are the module calls in its graph (events' identities), empty
    where it has none; `graph` says whether it carries a graph (None: not known). `shards` are the sharded loaders
    whose items it was computed from; a collective over it clears them. `batch_of` is the loader where it is an item.
    What else `Value` says of tensors stands there.
    """

    is_open = True
    is_tested = True

    origin: TensorOrigin
    device: Value | None = None
    forwards: frozenset[Hashable] = frozenset()
    graph: bool | None = None
    batch_of: Value | None = None
    shards: frozenset[Value] = frozenset()
    dependence: Divergence = field(default=Divergence.NONE)
    part: bool = False
    doubtful: bool = False
    """A part of what a model returned, or made from such: it has the graph only if that part was computed by it."""
    extent: Extent | None = None
    root: Hashable | None = None
    """What made it, where that surely was on the CPU, or on one GPU, and it holds more than one number; None where it
    is not known."""
    mean: bool = False
    used: frozenset[Value] = frozenset()
    plain: bool = False
    """What the loader yields here is no tensor itself, as a test says: a container of such, a number, a text."""
    divided: Value | None = None
    over: Value | None = None

    @property
    def divergence(self) -> Divergence:
        return self.dependence

    @property
    def on_cpu(self) -> bool:  # type: ignore[override]
        return self.device is not None and self.device.is_cpu

    @property
    def on_accelerator(self) -> bool:  # type: ignore[override]
        return self.device is not None and self.device.is_accelerator

    def has_names_for(self, key: Value) -> bool:
        # A tensor holds no text. A whole batch that is asked for something is a dictionary of tensors.
        whole = self.origin is TensorOrigin.BATCH and not self.part
        return key.is_text or (whole and key.divergence is Divergence.NONE)

    @property
    def is_own_batch(self) -> bool:
        """It is data of this rank alone."""
        return self.origin is TensorOrigin.BATCH and bool(self.shards)

    def on_each_rank(self) -> Tensor:
        return replace(self, dependence=self.dependence | Divergence.RANK)

    def is_plain(self, tests: Iterable[Literal], where: str = "") -> bool:
        # `isinstance(batch["x"], Tensor)`: what a loader yields may be a container of tensors, or a text.
        if self.batch_of is None or self.plain:
            return self.plain
        tests = list(tests)
        return any(self._is_denied(each, where) for each in tests) or (self.part and self._is_of_nothing(tests))

    def _is_of_nothing(self, tests: Iterable[Literal]) -> bool:
        """The whole batch is neither a dictionary nor a list: nobody knows what it has parts of."""
        names: set[str] = set()
        for key in (each.atom.key for each in tests if not each.holds):
            if isinstance(key, IsInstance) and any(map(self._is_part_of, key.given[0])):
                for kind in key.given[1]:
                    several = kind.items if isinstance(kind, TupleOf) else (singleton(kind),)
                    names |= {
                        each.name.rpartition(".")[2] for one in several for each in one if isinstance(each, Library)
                    }
        return not names.isdisjoint(_MAPPINGS) and not names.isdisjoint(_SEQUENCES)

    def _is_part_of(self, other: Value) -> bool:
        return isinstance(other, Tensor) and not other.part and other.batch_of == self.batch_of

    def _is_denied(self, test: Literal, where: str) -> bool:
        key = test.atom.key
        if not isinstance(key, IsInstance) or key.plain_where is not test.holds:
            return False
        # What a value is on a path of its own, a test on that path has said, of the part of the batch that it was then.
        here = not where or key.subject == where
        return any(each == self or (here and self._is_part_like(each)) for each in key.given[0])

    def _is_part_like(self, other: Value) -> bool:
        """Read anew, a part of a batch is a new value."""
        return isinstance(other, Tensor) and other.part and self.part and other.batch_of == self.batch_of

    def as_plain(self) -> Tensor:
        # A flag or a text stands for no share, and nobody has seen it to be a number.
        return self if self.plain else replace(self, plain=True, shards=frozenset())

    def if_tensor(self, **fields: Any) -> Tensor:
        return replace(self, **fields)

    def bound_to(self, name: str) -> Tensor:
        # Messages name what the user wrote: `images`, not `next(loader)`; `loss`, not the model that returned it too.
        one = self.origin is TensorOrigin.BATCH or (self.origin is TensorOrigin.OUTPUT and self.part)
        return replace(self, label=name) if one and self.label != name else self


def buffer_of(tensor: Tensor) -> Value | None:
    """The module with which it goes, as a buffer."""
    term = tensor.device.term if tensor.root is not None and tensor.device is not None else None
    return term.of if isinstance(term, Attribute) and term.name == "device" else None


def tensors_in(values: Iterable[Value]) -> list[Tensor]:
    """Those of the values that are tensors."""
    return [value for value in values if isinstance(value, Tensor)]
