"""Operators and comparisons, on constants, ranks, sizes, tensors and text."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.constant_folding import compared, is_nan, whole_number
from gpudoctor.lint.domain.function import Class, Library
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind
from gpudoctor.lint.domain.symbols import (
    AllOf,
    AnyOf,
    Attribute,
    CallResult,
    Compares,
    IsTrue,
    Item,
    Length,
    MethodResult,
    NodeProduct,
    Operation,
    RankIs,
    Widened,
    each_of,
)
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.traced_number import number_of
from gpudoctor.lint.domain.value import (
    FALSE,
    SCALAR,
    TRUE,
    Allocated,
    Const,
    Text,
    Truth,
    Unknown,
    Value,
    constant_of,
    divergence_of,
)
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Atom, Divergence, Equality, Inequality, Literal
from gpudoctor.lint.flow.interning import is_interned
from gpudoctor.lint.library.library_names import is_canonical
from gpudoctor.lint.library.register import HOOKS

OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.NotEq: ast.Eq,
    ast.IsNot: ast.Is,
    ast.GtE: ast.Lt,
    ast.LtE: ast.Gt,
    ast.NotIn: ast.In,
}
TURNED = {"==": "==", "<": ">", ">": "<"}
TESTS: dict[type[ast.cmpop], str] = {ast.Eq: "==", ast.Is: "==", ast.Lt: "<", ast.Gt: ">", ast.In: "in"}
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.LShift: "<<", ast.RShift: ">>", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&",
}  # fmt: skip


NOUGHT = Const(0)

_INFINITE = float("inf")


def rank_arithmetic(op: ast.operator, left: Value, right: Value) -> Value | None:
    """Ranks and sizes: `rank % gpus` is a local rank, `node * gpus + local` a global one."""
    match op, left, right:
        # Holds where nodes are filled one after the other, as all launchers do.
        case ast.Mod(), Rank(as_text=False), Size() | Unknown(config=True):
            return Rank(RankKind.LOCAL, left.source, place=left.place)
        case (ast.Add(), Rank() as rank, product) | (ast.Add(), product, Rank() as rank):
            factors = _node_product(product)
            if factors is not None:
                return Rank(RankKind.GLOBAL, rank.source, place=rank.place, formula=factors)
        case ast.Mult(), _, _:
            return _size_product(left, right)
        # `rank // gpus_per_node` numbers the nodes.
        case ast.FloorDiv() | ast.Div(), Rank(), Size():
            return Rank(RankKind.NODE, left.source, place=left.place)
    return None


def _node_product(value: Value) -> tuple[Value, Value] | None:
    """The number of a node and the size of one, of `node * gpus`."""
    match value.term:
        case NodeProduct(size, node):
            return node, size
    return None


def _size_product(left: Value, right: Value) -> Value | None:
    for size, other in ((left, right), (right, left)):
        if not isinstance(size, Size):
            continue
        if isinstance(other, Rank):
            return Unknown(NodeProduct(size, other), dependence=Divergence.RANK)
        # `nodes * torch.cuda.device_count()`.
        if isinstance(other, Size) and SizeKind.DEVICES in (size.kind, other.kind):
            return Size(SizeKind.WORLD, place=size.place, product=True)
        if other.config:
            # `args.nr * gpus`: becomes a rank once the local one is added.
            return Unknown(NodeProduct(size, other), label=other.label, config=True, times=size)
    return None


def scaled_by(op: ast.operator, left: Value, right: Value) -> Value | None:
    """The size that a product has as a factor, which sums do not keep and divisions only where they leave it alone."""
    if isinstance(op, ast.Mult):
        return next((size for value in (left, right) if (size := _factor(value)) is not None), None)
    plain = isinstance(right, (Const, Unknown)) and _factor(right) is None
    return _factor(left) if isinstance(op, (ast.Div, ast.FloorDiv)) and isinstance(left, Unknown) and plain else None


def _factor(value: Value) -> Value | None:
    return value if isinstance(value, Size) else value.times


def compare(op: ast.cmpop, left: Value, right: Value, text: str, place: Location) -> Value:
    """One comparison of two values."""
    if isinstance(left, Library):
        known = HOOKS.library_compared[0](op, left, right)
        if known is not None:
            return TRUE if known else FALSE
    if any(isinstance(each, Const) and is_nan(number_of(each)) for each in (left, right)):
        return TRUE if isinstance(op, (ast.NotEq, ast.IsNot, ast.NotIn)) else FALSE
    opposite = OPPOSITE.get(type(op))
    # One form for each pair, so that `!=` and `==` are one atom with two signs.
    if opposite is not None:
        return negate(compare(opposite(), left, right, text, place))
    if isinstance(left, Const) and isinstance(right, Const):
        # What Python would refuse is not ours to report.
        return TRUE if compared(op, left, right) else FALSE
    answers = {compared(op, one, other) for one in _choices(left) for other in _choices(right)}
    if len(answers) == 1 and None not in answers:
        return TRUE if answers == {True} else FALSE
    if isinstance(op, (ast.Is, ast.Eq)):
        known = _same(op, left, right)
        if known is not None:
            return TRUE if known else FALSE
    # `len(os.path.join(folder, "encoder.pth")) == 0` asks whether there is a path at all.
    if right == NOUGHT and isinstance(left, Unknown) and _is_length_of_text(left):
        return TRUE if isinstance(op, ast.Gt) else FALSE
    for one, other, swapped in ((left, right, False), (right, left, True)):
        if isinstance(one, Rank) and isinstance(other, (Const, Unknown, Size)):
            return _compare_rank(op, one, other, swapped, text, place)
        if isinstance(one, Size) and isinstance(other, Const):
            return _compare_size(op, one, other, swapped)
    # `len(names) > 0` asks what `if names` asks.
    some = _ASKS_FOR_SOME.get((type(op), right))
    if some is not None and (counted := counted_by(left)) is not None:
        found = open_test(IsTrue(counted), text, place)
        return found if some else negate(found)
    # Whether something is there at all depends on how the program is written, not on what this rank has computed.
    kind = isinstance(op, ast.Is) and Const(None) in (left, right)
    asked = Compares(TESTS.get(type(op), "?"), left, right)
    return open_test(asked, text, place, Divergence.LOCAL if kind else Divergence.NONE)


_ASKS_FOR_SOME: dict[tuple[type[ast.cmpop], Value], bool] = {
    (ast.Gt, NOUGHT): True,
    (ast.GtE, Const(1)): True,
    (ast.Eq, NOUGHT): False,
    (ast.Lt, Const(1)): False,
    (ast.LtE, NOUGHT): False,
}
"""Comparisons of a number of items that ask whether there is one, or whether there is none."""


def counted_by(value: Value) -> Value | None:
    """The list or dictionary of which it is the length."""
    of = value.term.of if isinstance(value.term, Length) else None
    return of if of is not None and of.is_mutable else None


def _is_length_of_text(value: Unknown) -> bool:
    """Of one that is known in parts, which cannot all be empty."""
    match value.term:
        case Length(Text(parts)):
            return any(map(constant_of, parts))
    return False


COUNTED = {
    RankKind.GLOBAL: (),
    RankKind.LOCAL: (SizeKind.LOCAL_WORLD, SizeKind.DEVICES),
    RankKind.NODE: (SizeKind.NODES,),
}
"""What ranks of a kind count, beside all processes: there are at least that many."""

SETTLED = (Divergence.NONE, MAYBE_BY_RANK)
"""What a switch may depend on: where all must come by, it came out the same for all, though the rank may lie beside it
in what it is read from."""


def open_test(
    asked: IsTrue | Compares, text: str, place: Location | None = None, apart_from: Divergence = Divergence.NONE
) -> Truth:
    """A test that is not decided: the same question has the same answer wherever it is asked."""
    values = (asked.value,) if isinstance(asked, IsTrue) else (asked.left, asked.right)
    divergence = divergence_of(values) & ~apart_from
    # Of settings alone: the user decides it for all ranks at once.
    switch = divergence in SETTLED and all(value.is_setting for value in values)
    return Truth(Literal(Atom(asked, divergence, text, place, switch=switch, bound=bound_in(asked)), True))


def bound_in(key: Hashable) -> Inequality | Equality | None:
    """The comparison with a number or a text that a test of this key is."""
    if not isinstance(key, Compares) or key.operator not in TURNED:
        return None
    kind, left, right = key.operator, key.left, key.right
    if left.is_constant:
        kind, left, right = TURNED[kind], right, left
    number = constant_of(right)
    if isinstance(number, str) and kind == "==":
        return Equality(left, number)
    # A flag is no number, although Python counts with it.
    if not isinstance(number, (int, float)) or isinstance(number, bool) or left.is_constant:
        return None
    return Inequality(left, kind, number)


def _choices(value: Value) -> tuple[Const, ...]:
    """All that a value can be, where that is known."""
    if isinstance(value, Const):
        return (value,)
    return value.among


def negate(value: Value) -> Value:
    """`not value`, for a truth value."""
    if isinstance(value, Truth):
        return Truth(value.literal.negated())
    return FALSE if value == TRUE else TRUE


def _same(op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """Whether two values are the same, where their kinds decide it."""
    for one, other in ((left, right), (right, left)):
        # `if model is None` after `model = Net()`: decided.
        if isinstance(one, Const) and one.value is None and _is_something(other):
            return None if _may_be_left_out(other, one) else False
    if left == right:
        return None if _may_differ_from_itself(left) else True
    if isinstance(left, Library) and isinstance(right, (Library, Class)) and is_canonical(left.name):
        # Names of torch are canonical; a class of the project is none of them.
        return False if isinstance(right, Class) or is_canonical(right.name) else None
    if isinstance(left, Class) and isinstance(right, Library):
        return _same(op, right, left)
    if isinstance(left, Allocated) and isinstance(right, Allocated) and isinstance(op, ast.Is):
        return False
    for one, other in ((left, right), (right, left)):
        if one.differs_from(other) or _is_no_remainder(one, other) or _is_other_type(one, other):
            return False
    return None


def _may_differ_from_itself(value: Value) -> bool:
    """Of tensors `==` compares the numbers, and two of them may have the same maker; NaN equals nothing:
    `if loss.item() != loss.item()`."""
    match value:
        case Unknown(term=MethodResult(Tensor())):
            return True
    return type(value) in HOOKS.comparisons


def _is_no_remainder(value: Value, other: Value) -> bool:
    """`(step + 1) % 4 == 4` never holds."""
    match value:
        case Unknown(term=Operation("%", right=Const() as divisor)) if isinstance(other, Const):
            by, rest = number_of(divisor), number_of(other)
            return type(by) is int and by > 0 and type(rest) is int and not 0 <= rest < by
    return False


def _is_other_type(value: Value, other: Value) -> bool:
    """`self.alpha.type() == x.type()`: the names of the types say where the two tensors lie."""
    match value, other:
        case Unknown(term=MethodResult(Tensor(on_cpu=True), "type")), Unknown(
            term=MethodResult(Tensor(on_accelerator=True), "type")
        ):
            return True
    return False


def _is_something(value: Value) -> bool:
    """It is not None, of whatever else may not be known."""
    if not isinstance(value, Unknown):
        return value.is_object or (isinstance(value, Const) and value.value is not None)
    if isinstance(value.term, Widened):
        return all(map(_is_something, each_of(value)))
    return value.kind not in ("", SCALAR) or _is_made(value) or _is_piece(value)


def _is_made(value: Unknown) -> bool:
    """What the class of a library returned, itself and no part of it: `log_writer = SummaryWriter(...)`."""
    function = value.term.function if isinstance(value.term, CallResult) else None
    return function == value.escaped_from and value.escaped_from.rpartition(".")[2][:1].isupper()


def _is_piece(value: Unknown) -> bool:
    """One of what `split` gives: a text, or a tensor."""
    match value.term:
        case Item(Unknown(CallResult(Unknown(Attribute(name="split"))) | MethodResult(method="split"))):
            return True
    return False


def _may_be_left_out(value: Value, default: Const) -> bool:
    """A rank that only an old launcher passes as an option: with another launcher the default is left, which may be
    this one."""
    if not isinstance(value, Rank) or value.source is not RankSource.ARGUMENT:
        return False
    return not isinstance(value.left_out, Const) or value.left_out == default


def _compare_rank(op: ast.cmpop, rank: Rank, other: Value, swapped: bool, text: str, place: Location) -> Value:
    bound = constant_of(other)
    # `os.environ["RANK"] == "0"` compares two texts and is right.
    number = whole_number(bound) if isinstance(bound, str) and rank.as_text else None
    # `"00"` is the text of no rank.
    if number is not None and str(number) == bound:
        bound = number
    # `--local_rank` defaults to -1: with torchrun nobody passes it.
    nobody = bound is None or (type(bound) is int and bound < 0)
    if nobody and isinstance(other, Const) and _may_be_left_out(rank, other):
        left_out = Truth(Literal(Atom(Compares("==", rank, other), text=text, place=place, switch=True), True))
        if isinstance(op, (ast.Eq, ast.Is)):
            return left_out
        # `local_rank > -1` asks the same.
        return negate(left_out) if bound is not None and isinstance(op, ast.Gt) is not swapped else FALSE
    if bound is None or isinstance(bound, (str, bytes, complex)) or bound is Ellipsis:
        if other.is_constant:
            return FALSE
        if _counts(other, rank):
            # Ranks count from 0 up to the size: `rank >= world_size` holds on none of them.
            return TRUE if isinstance(op, (ast.Lt, ast.Gt)) and isinstance(op, ast.Lt) is not swapped else FALSE
        return _rank_test(rank, TESTS.get(type(op), "?"), other, "", text, place)
    if isinstance(op, (ast.Eq, ast.Is)):
        # `rank == -1` means "not distributed" and never holds in a launched job; `rank == 0.5` never holds at all.
        whole = 0 <= bound < _INFINITE and bound == int(bound)
        return _rank_test(rank, "==", int(bound), f"rank {int(bound)}", text, place) if whole else FALSE
    below = isinstance(op, ast.Lt) is not swapped
    # `rank < float("inf")`: all of them.
    if abs(bound) == _INFINITE:
        return TRUE if below is (bound > 0) else FALSE
    if below:
        return FALSE if bound <= 0 else _rank_below(rank, -int(-bound // 1), text, place)
    # rank > bound
    return TRUE if bound < 0 else negate(_rank_below(rank, int(bound // 1) + 1, text, place))


def _counts(size: Value, rank: Rank) -> bool:
    """The size is that of what the ranks count, or of more."""
    if not isinstance(size, Size) or size.as_text or rank.as_text:
        return False
    return size.kind is SizeKind.WORLD or size.kind in COUNTED[rank.kind]


def _rank_below(rank: Rank, bound: int, text: str, place: Location) -> Value:
    # `rank < 1` is `rank == 0`: one atom, so guards of both kinds meet.
    if bound == 1:
        return _rank_test(rank, "==", 0, "rank 0", text, place)
    return _rank_test(rank, "<", bound, f"ranks below {bound}", text, place)


def _rank_test(rank: Rank, kind: str, bound: object, ranks: str, text: str, place: Location) -> Value:
    if rank.kind is RankKind.LOCAL and ranks and rank.source is not RankSource.SPAWN_INDEX:
        # Local rank 0 is one process for each node.
        ranks = f"local {ranks}"
    divergence = Divergence.RANK | (Divergence.BATCH_INDEX if _goes_round(bound) else Divergence.NONE)
    return Truth(Literal(Atom(RankIs(rank.kind, kind, bound), divergence, text, place, ranks), True))


def _goes_round(value: object) -> bool:
    """`index % world_size`: another rank in each round of a loop."""
    match value:
        case Unknown(Operation(operator="%", right=Size())):
            return True
        case Unknown(dependence=divergence):
            return bool(divergence & Divergence.BATCH_INDEX)
    return False


def _compare_size(op: ast.cmpop, size: Size, other: Const, swapped: bool) -> Value:
    """A world has more than one process, and a machine more than one device; how many is open. A group may be that of
    one rank alone."""
    bound, least = other.value, 1 if size.of_part else 2
    if not isinstance(bound, (int, float)):
        return FALSE
    if isinstance(op, (ast.Eq, ast.Is)):
        # A world of one process needs nothing of what is judged here.
        return FALSE if bound < least else open_test(Compares("==", size, other), f"{size!r} == {bound}")
    below = isinstance(op, ast.Lt) is not swapped
    if below:
        return FALSE if bound <= least else open_test(Compares("<", size, other), f"{size!r} < {bound}")
    return TRUE if bound < least else open_test(Compares(">", size, other), f"{size!r} > {bound}")


def contains(items: list[Value], left: Value, text: str, place: Location) -> Value:
    """`left in items`, item by item."""
    open_parts: list[Literal] = []
    for item in items:
        result = compare(ast.Eq(), left, item, text, place)
        if result == TRUE:
            return TRUE
        if isinstance(result, Truth):
            open_parts.append(result.literal)
    if not open_parts:
        return FALSE
    if len(open_parts) == 1:
        return Truth(open_parts[0])
    return disjunction(open_parts, text, place)


def asks_text(key: Hashable) -> bool:
    """Whether something that is not known is a certain text."""
    match key:
        case Compares("==", Unknown(), Const(value=str())):
            return True
    return False


def conjunction(parts: list[Literal], text: str, place: Location) -> Truth:
    """All of the literals hold."""
    return Truth(_composite(AllOf, AnyOf, parts, text, place))


def disjunction(parts: list[Literal], text: str, place: Location) -> Truth:
    """One of the literals holds."""
    return Truth(_composite(AnyOf, AllOf, parts, text, place))


_Kind = type[AllOf] | type[AnyOf]


def _composite(kind: _Kind, opposite: _Kind, parts: list[Literal], text: str, place: Location) -> Literal:
    negated = [part.negated() for part in parts]
    # `not a and not b` after `a or b`: one atom with two signs, so that the two tests decide each other.
    if is_interned(opposite(frozenset(negated))):
        word = " and " if opposite is AllOf else " or "
        return Literal(_atom(opposite, negated, word.join(map(repr, negated)), place), False)
    return Literal(_atom(kind, parts, text, place), True)


def _atom(kind: _Kind, parts: list[Literal], text: str, place: Location) -> Atom:
    divergence = Divergence.NONE
    for part in parts:
        divergence |= part.atom.divergence
    switch = divergence in SETTLED and all(part.atom.switch for part in parts)
    ranks = next((part.atom.ranks for part in parts if part.atom.ranks and part.holds), "") if kind is AllOf else ""
    return Atom(
        kind(frozenset(parts)),
        divergence,
        text,
        place,
        ranks,
        switch,
        every=tuple(parts) if kind is AllOf else (),
        none=tuple(parts) if kind is AnyOf else (),
    )
