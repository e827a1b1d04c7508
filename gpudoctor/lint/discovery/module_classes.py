"""Classes that may be modules which hide layers in a list, or forget `super().__init__()`: told by their syntax alone.

Wider than what the interpreter finds, and cheap: it decides which classes of a library are looked at more closely.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpudoctor.lint.source.syntax_walk import nodes_of, walk

# Bases that are no modules whatever project they are from. No pattern is compiled before it is asked for: most runs
# lint programs, and never do.
_NO_MODULE = (
    r"(?:object|ABC|Generic|Protocol|NamedTuple|TypedDict|Function|TestCase|Thread|\w*(?:Enum|Flag)"
    r"|str|int|float|dict|list|tuple|set|type|Dict|List|\w*(?:Config|Error|Exception|Warning|Output|Tokenizer|Dataset"
    r"|Processor|ProcessorMixin|ConfigMixin|Backend|Callback|Criteria|Cache|Distribution|Kernel|Pickler|Tracer|Mode"
    r"|Variable|Buffer|Handler|Manager|Quantizer))$"
)
# What gives no layer, called by its bare name.
_PLAIN_CALLS = frozenset(
    "abs all any bool dict enumerate float frozenset int len list max min range repr round set sorted str sum tuple "
    "type zip isinstance getattr".split()
)
_MAKERS = ("list", "dict", "defaultdict", "OrderedDict")
_ADDERS = ("append", "extend", "insert", "update", "setdefault")
_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign


# Where such a text stands costs a tenth of looking for it in the tree: `self.blocks: dict[str, nn.Module] = {}`, and
# `blocks = [` for what a constructor first collects in a local name.
_DISPLAY = r"= (?:\[|\{|list\(|dict\(|defaultdict\(|OrderedDict\()"
_KEPT = rf"self\.\w+(?:: [^=\n]{{1,80}})? {_DISPLAY}"


def flawed_classes(tree: ast.Module, text: str) -> Iterator[str]:
    """Classes that may be modules, and that register not all their layers, or do so too early."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    if classes:
        kept, made = _LineSearch(_KEPT, text), _LineSearch(_DISPLAY, text)
        yield from (each.name for each in classes if _may_be_flawed(each, kept, made))


class _LineSearch:
    """The lines on which a pattern is found."""

    def __init__(self, pattern: str, text: str) -> None:
        self.text = text
        self._found = [text.count("\n", 0, found.start()) + 1 for found in re.finditer(pattern, text)]

    def meet(self, node: ast.stmt) -> bool:
        return any(node.lineno <= line <= (node.end_lineno or line) for line in self._found)


def _may_be_flawed(cls: ast.ClassDef, kept: _LineSearch, made: _LineSearch) -> bool:
    if any(isinstance(each, ast.ClassDef) and _may_be_flawed(each, kept, made) for each in cls.body):
        return True
    bases = [name for name in map(_last_name, cls.bases) if not re.match(_NO_MODULE, name)]
    methods = [each for each in cls.body if isinstance(each, _FunctionNode)] if bases else []
    surely = any("Module" in name for name in bases)
    if surely and any(_lets_go(each, kept.text) for each in methods if each.name == "__init__"):
        return True
    if any(_forgets_super(_MethodLayers(each), surely) for each in methods if _begins_otherwise(each)):
        return True
    if not kept.meet(cls):
        methods = [each for each in methods if each.name == "__init__" and made.meet(each)]
    return _hides_layers(list(map(_MethodLayers, methods)))


def _begins_otherwise(method: _FunctionNode) -> bool:
    """A constructor that does not begin with that of a base."""
    if method.name != "__init__":
        return False
    first = next((each for each in method.body if not _is_text(each)), None)
    called = first.value.func if isinstance(first, ast.Expr) and isinstance(first.value, ast.Call) else None
    return not (isinstance(called, ast.Attribute) and called.attr == "__init__")


def _lets_go(constructor: _FunctionNode, text: str) -> bool:
    """A local name holds what the object is asked for under the same name, and never given."""
    for each in constructor.body:
        target = each.targets[0] if isinstance(each, ast.Assign) else None
        # Cheap tests first: this is asked of each constructor of a large project.
        if isinstance(target, ast.Name) and f"self.{target.id}" in text:
            asked, given = rf"self\.{target.id}\b(?! *=[^=])", rf"self\.{target.id} *=[^=]"
            if re.search(asked, text) and not re.search(given, text):
                return True
    return False


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


class _MethodLayers:
    """What there is to know of a method: its assignments, and the names that hold no layer made here: arguments, and
    what loops and comprehensions count through."""

    def __init__(self, node: _FunctionNode) -> None:
        self.name = node.name
        self.nodes = list(walk(node))
        self.assigned = [each for each in self.nodes if isinstance(each, _Assignment)]
        arguments = [each.arg for each in self.nodes if isinstance(each, ast.arg)]
        loops = (each.target for each in self.nodes if isinstance(each, (ast.comprehension, ast.For)))
        counted = [each.id for loop in loops for each in nodes_of(ast.Name, loop)]
        self.given = frozenset((*arguments, *counted))
        self.own = arguments[0] if arguments else ""

    def attribute(self, node: _Assignment) -> str:
        """The attribute of `self` that is assigned, or nothing."""
        for target in _targets(node):
            if isinstance(target, ast.Attribute) and _last_name(target.value) == self.own:
                return target.attr
        return ""

    def makes_layer(self, value: ast.expr | None) -> bool:
        """What a call makes or a local name holds may be one, and a container of such counts, too."""
        match value:
            case ast.Name(name):
                return name not in self.given
            case ast.Call(called) if not (isinstance(called, ast.Name) and called.id in _PLAIN_CALLS):
                return True
        return any(self.makes_layer(each) for each in _inside(value))

    def filled(self) -> Iterator[str]:
        """Names of containers to which something is added that may be a layer."""
        for node in self.nodes:
            match node:
                case ast.Call(ast.Attribute(filled, name), given) if name in _ADDERS:
                    if any(map(self.makes_layer, given)):
                        yield _last_name(filled)
                case ast.Assign([ast.Subscript() as target, *_], value) | ast.AugAssign(target=target, value=value):
                    if self.makes_layer(value):
                        yield _last_name(target)


def _last_name(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _targets(node: _Assignment) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def _forgets_super(constructor: _MethodLayers, surely: bool) -> bool:
    """Something that may be a layer is assigned before the constructor of a base is called, or none is called."""
    lines = [node.lineno for node in constructor.nodes if isinstance(node, ast.Attribute) and node.attr == "__init__"]
    assigned = [node for node in constructor.assigned if constructor.attribute(node)]
    early = [node for node in assigned if not lines or node.lineno <= min(lines)]
    return any(map(constructor.makes_layer, (node.value for node in early))) or (surely and bool(early) and not lines)


def _hides_layers(methods: list[_MethodLayers]) -> bool:
    """An attribute is given a plain list or dictionary of what may be layers, or one that is filled with such."""
    filled = {name for method in methods for name in method.filled()}
    return any(_keeps_layers(node, method, filled) for method in methods for node in method.assigned)


def _keeps_layers(node: _Assignment, method: _MethodLayers, filled: set[str]) -> bool:
    attribute, value = method.attribute(node), node.value
    if not attribute:
        return False
    if not isinstance(value, ast.Name):
        return _is_container(value) and (attribute in filled or method.makes_layer(value))
    # `blocks = []; …; self.blocks = blocks` is the same, in two steps.
    same = [each for each in method.assigned if value.id in map(_last_name, _targets(each))]
    return any(_is_container(each.value) and (value.id in filled or method.makes_layer(each.value)) for each in same)


def _is_container(value: ast.expr | None) -> bool:
    match value:
        case ast.Call(ast.Name(made)):
            return made in _MAKERS
        case ast.BinOp(left=one, right=other) | ast.IfExp(body=one, orelse=other):
            return _is_container(one) or _is_container(other)
    return isinstance(value, (ast.List, ast.Dict, ast.ListComp, ast.DictComp))


def _inside(value: ast.expr | None) -> Iterator[ast.expr | None]:
    """The parts of an expression that it holds, or one of which it is."""
    match value:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Call(args=parts):
            yield from parts
        case ast.Dict(values=parts):
            yield from parts
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.SetComp(elt=part) | ast.DictComp(value=part):
            yield part
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
            yield from (one, other)
        case ast.Starred(value=part) | ast.NamedExpr(value=part) | ast.Await(value=part):
            yield part
