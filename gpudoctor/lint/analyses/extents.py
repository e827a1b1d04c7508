"""How many numbers a tensor holds, or what decides on that: of what operations make."""

from __future__ import annotations

from gpudoctor.lint.domain.symbols import Attribute, Item, Length, MethodResult
from gpudoctor.lint.domain.tensor import Extent, Tensor, tensors_in
from gpudoctor.lint.domain.traced_number import number_of
from gpudoctor.lint.domain.value import Const, Unknown, Value
from gpudoctor.lint.interface.library_call import Call
from gpudoctor.manifest.compiled import operations

_SAME_COUNT = operations("each_number", "reshapes", "joins")
"""What gives as many numbers as it gets, perhaps in another shape."""


def of_extent(value: Value, extent: Extent | None) -> Value:
    """The result of an operation, with what is known of its extent."""
    return value.if_tensor(extent=extent) if extent is not None else value


def extent_of_sum(values: list[Value]) -> Extent | None:
    """The extent of what an arithmetic operator makes of these."""
    extents = [value.extent for value in tensors_in(values)]
    if Extent.OF_DATA in extents:
        return Extent.OF_DATA
    if Extent.EACH_GPU in extents:
        return Extent.EACH_GPU
    plain = all(isinstance(value, (Tensor, Const)) or value.config for value in values)
    return Extent.NUMBER if plain and extents and all(each is Extent.NUMBER for each in extents) else None


def extent_by(call: Call, name: str, given: list[Value]) -> Extent | None:
    """The extent of what an operation makes of these: a number where it takes the mean or most of everything."""
    if isinstance(call.receiver, Tensor) and name in operations("each_number"):
        return call.receiver.extent
    if name in operations("answers"):
        return Extent.CHOICE
    of_data = name in _SAME_COUNT and any(each.extent is Extent.OF_DATA for each in tensors_in(given))
    if of_data or name in operations("picks"):
        return Extent.OF_DATA
    more = call.args[1:] if call.receiver is None else call.args
    whole = name in operations("reduces") and not more and not call.keywords.keys() - {"dtype"}
    return Extent.NUMBER if whole else None


def is_count(value: Value) -> bool:
    """Surely a number, and no shape: `len(x)`, `x.size(0)`, `x.shape[0]`."""
    match value.term or value:
        case Const() as number:
            return type(number_of(number)) is int
        case Item(Unknown(term=Attribute(name="shape")), Const()) | Length():
            return True
        case MethodResult(method="size", given=given):
            return bool(given)
    return False
