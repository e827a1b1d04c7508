"""What Python's expressions say that are put together from constants: texts, words, and variables. Anything else is a
variable from outside, written as the shell writes it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from gpudoctor.lint.domain.constant_folding import of_text, operated
from gpudoctor.lint.domain.value import Const
from gpudoctor.record import dataclass, field, replace

_MOST_ITEMS = 1_000


@dataclass(frozen=True)
class PythonText:
    """A word, or a text; `open` where it may be several words or none, `is_number` where Python counts with it."""

    text: str
    node: ast.AST
    open: bool = False
    is_number: bool = False


PythonValue: TypeAlias = "PythonText | tuple[PythonText, ...] | dict[str, PythonText] | None"


@dataclass
class Around:
    """How a statement is reached."""

    names: dict[str, PythonValue] = field(default_factory=dict)
    folder: str = ""
    looped: bool = False
    depth: int = 0


class PythonValues:
    """What the expressions of a file say, where it is known what its names hold."""

    def __init__(self, tree: ast.Module) -> None:
        nodes = list(ast.walk(tree))
        self.functions = {each.name: each for each in nodes if isinstance(each, ast.FunctionDef)}
        self.imports = [each for each in nodes if isinstance(each, (ast.Import, ast.ImportFrom))]
        self.imported = {alias.asname or alias.name for each in self.imports for alias in each.names}
        self.options = dict(each for node in nodes for each in _option_of(node))
        self.returned: dict[int, PythonValue] = {}

    def is_own(self, func: ast.expr) -> bool:
        """A function of the file, or a method of what it has made."""
        held = func.value if isinstance(func, ast.Attribute) else None
        own = isinstance(func, ast.Name) or (isinstance(held, ast.Name) and held.id not in self.imported)
        return own and name_of(func) in self.functions

    def told(self, node: ast.expr, around: Around) -> PythonValue:
        """What an expression says: a text, words, or variables; unknown parts are variables of the shell."""
        match node:
            case ast.Constant(value) if isinstance(value, (str, int)):
                return PythonText(str(value), node, is_number=isinstance(value, int))
            case ast.JoinedStr(values):
                parts = [self.told(each, around) for each in values]
                return PythonText(
                    "".join(each.text if isinstance(each, PythonText) else "${_}" for each in parts), node
                )
            case ast.FormattedValue(value):
                return self.told(value, around)
            case ast.Name(name):
                known = around.names.get(name)
                return known if known is not None else PythonText(f"${{{name}}}", node)
            case ast.List(items) | ast.Tuple(items):
                return self.listed(items, around)
            case ast.ListComp(ast.Name(item) | ast.Call(ast.Name("str"), [ast.Name(item)]), [each]) | ast.GeneratorExp(
                ast.Name(item) | ast.Call(ast.Name("str"), [ast.Name(item)]), [each]
            ) if name_of(each.target) == item and not each.ifs:
                return self.told(each.iter, around)
            case ast.BinOp(left, sign, right):
                return _combined(self.told(left, around), sign, self.told(right, around), node)
            case ast.Dict(keys, values):
                found: dict[str, PythonText] = {}
                for key, value in zip(keys, values, strict=True):
                    said = self.told(value, around)
                    if key is None and isinstance(said, dict):
                        found |= said
                    elif isinstance(key, ast.Constant):
                        found[str(key.value)] = said if isinstance(said, PythonText) else PythonText("${_}", value)
                return found
            case ast.Call(func) if self.is_own(func):
                known = self.returned.get(id(node))
                return known if known is not None else PythonText("${_}", node)
            case ast.Call(func, arguments):
                return self._made(func, arguments, node, around)
            case ast.Attribute(attr="executable"):
                return PythonText("python", node)
            case ast.Attribute(attr=name) if name in self.options:
                return PythonText(f"${{{name}:-{self.options[name]}}}", node)
        return PythonText("${_}", node)

    def listed(self, items: Iterable[ast.expr], around: Around) -> tuple[PythonText, ...]:
        found: list[PythonText] = []
        for item in items:
            inner = item.value if isinstance(item, ast.Starred) else item
            told = self.told(inner, around)
            if isinstance(item, ast.Starred):
                found += told if isinstance(told, tuple) else [PythonText("${_}", item, open=True)]
            else:
                found.append(told if isinstance(told, PythonText) else PythonText("${_}", item))
        return tuple(found)

    def _made(self, func: ast.expr, arguments: list[ast.expr], node: ast.Call, around: Around) -> PythonValue:
        held = self.told(func.value, around) if isinstance(func, ast.Attribute) else None
        first = self.told(arguments[0], around) if arguments else None
        match name_of(func):
            case "split" if isinstance(held, PythonText) and "$" not in held.text:
                return tuple(PythonText(each, held.node) for each in held.text.split(text_of(first) or None))
            case "split" if isinstance(text := first if first is not None else held, PythonText):
                return tuple(PythonText(each, text.node) for each in text.text.split())
            case "range" if len(arguments) == 1 and (count := text_of(first)).isdecimal() and int(count) <= _MOST_ITEMS:
                return tuple(PythonText(str(each), node, is_number=True) for each in range(int(count)))
            case "join" if isinstance(first, tuple):
                between = held.text if isinstance(held, PythonText) and "$" not in held.text else " "
                return PythonText(between.join(each.text for each in first), node)
            case "map" if len(arguments) == 2 and name_of(arguments[0]) == "str":
                return self.told(arguments[1], around)
            case "len" if isinstance(first, tuple) and not any(each.open for each in first):
                return PythonText(str(len(first)), node, is_number=True)
            case "str" if isinstance(first, PythonText):
                return replace(first, is_number=False)
            case "int" if _constant(first) is not None and text_of(first).isdecimal():
                return PythonText(text_of(first), node, is_number=True)
            case "dict":
                given = {each.arg: self.told(each.value, around) for each in node.keywords if each.arg}
                return {key: part for key, part in given.items() if isinstance(part, PythonText)}
            case "copy" if isinstance(func, ast.Attribute) and ast.unparse(func.value).endswith("environ"):
                return {}
        constants = [made for each in arguments if (made := _constant(self.told(each, around))) is not None]
        if isinstance(held, PythonText) and "$" not in held.text and len(constants) == len(arguments):
            return _shown(of_text(held.text, name_of(func), constants), node)
        return PythonText("${_}", node)


def printed(text: str) -> str | None:
    """What `python -c "print(...)"` prints at its end, where that is made of constants."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    values, around = PythonValues(tree), Around()
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name)], value):
                around.names[name] = values.told(value, around)
            case ast.Expr(ast.Call(ast.Name("print"), [shown], [])) if statement is tree.body[-1]:
                told = text_of(values.told(shown, around))
                return f"{told}\n" if told and "$" not in told else None
    return None


def _combined(left: PythonValue, sign: ast.operator, right: PythonValue, node: ast.AST) -> PythonValue:
    numbers = any(isinstance(each, PythonText) and each.is_number for each in (left, right))
    if numbers or not isinstance(sign, ast.Add):
        one, other = _constant(left), _constant(right)
        return _shown(operated(sign, one, other) if one is not None and other is not None else None, node)
    return added(left, right, node)


def _constant(told: PythonValue) -> Const | None:
    """What Python computes with; None where something of it comes from outside."""
    if not isinstance(told, PythonText) or "$" in told.text:
        return None
    return Const(int(told.text)) if told.is_number and told.text.lstrip("-").isdecimal() else Const(told.text)


def _shown(found: Const | None, node: ast.AST) -> PythonText:
    number = found is not None and isinstance(found.value, (int, float))
    return PythonText(str(found.value) if found is not None else "${_}", node, is_number=number)


def added(left: PythonValue, right: PythonValue, node: ast.AST) -> PythonValue:
    if isinstance(left, tuple):
        return (*left, *(right if isinstance(right, tuple) else (PythonText("${_}", node, open=True),)))
    if isinstance(left, PythonText) and isinstance(right, PythonText):
        return PythonText(left.text + right.text, node)
    return None


def _option_of(node: ast.AST) -> Iterator[tuple[str, str]]:
    """`parser.add_argument("--gpus", default="0,1")`: what it is where nobody says otherwise."""
    if not isinstance(node, ast.Call) or name_of(node.func) != "add_argument":
        return
    flags = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    for each in node.keywords:
        if each.arg == "default" and isinstance(each.value, ast.Constant) and isinstance(each.value.value, (str, int)):
            yield from ((flag.lstrip("-").replace("-", "_"), str(each.value.value)) for flag in flags)


def text_of(told: PythonValue) -> str:
    return told.text if isinstance(told, PythonText) else ""


def name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
