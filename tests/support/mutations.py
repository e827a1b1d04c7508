"""Programs that nobody has written: what people have written, with its tokens, lines and expressions shuffled.

Each mutation takes a source of randomness and the text of one or two files, and gives another text. Mutations of text
mostly break the syntax, as half-typed files do; those of trees never do, so that what follows the parser gets them.
"""

import ast
import io
import random
import tokenize
from collections.abc import Callable, Sequence

Mutation = Callable[[random.Random, str, str], str]


def mutated(rng: random.Random, text: str, other: str) -> str:
    """The text after a few mutations; `other` lends it parts."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        text = rng.choice(MUTATIONS)(rng, text, other)
    return text


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return []


def _replace(text: str, token: tokenize.TokenInfo, new: str) -> str:
    lines = text.split("\n")
    (first, start), (last, end) = token.start, token.end
    if last > len(lines):
        return text
    lines[first - 1 : last] = [lines[first - 1][:start] + new + lines[last - 1][end:]]
    return "\n".join(lines)


def _token(rng: random.Random, text: str, other: str) -> str:
    """One token away, twice, or another one."""
    tokens = [token for token in _tokens(text) if token.string.strip()]
    if not tokens:
        return text
    token = rng.choice(tokens)
    donors = [each for each in tokens if each.type == token.type] if rng.random() < 0.7 else _tokens(other) or tokens
    return _replace(text, token, rng.choice(("", f"{token.string} {token.string}", rng.choice(donors).string)))


def _lines(rng: random.Random, text: str, other: str) -> str:
    """Some lines moved, repeated, left out, or taken from the other file."""
    lines = text.split("\n")
    start = rng.randrange(len(lines))
    block = lines[start : start + rng.randint(1, 8)]
    at = rng.randrange(len(lines) + 1)
    kind = rng.choice(("move", "repeat", "leave out", "splice"))
    if kind in ("move", "leave out"):
        del lines[start : start + len(block)]
    if kind == "splice":
        others = other.split("\n")
        first = rng.randrange(len(others))
        block = others[first : first + rng.randint(1, 20)]
    if kind != "leave out":
        lines[at:at] = block
    return "\n".join(lines)


def _indentation(rng: random.Random, text: str, other: str) -> str:
    lines = text.split("\n")
    start = rng.randrange(len(lines))
    for index in range(start, min(len(lines), start + rng.randint(1, 10))):
        lines[index] = rng.choice(("    ", "\t", " ")) + lines[index] if rng.random() < 0.5 else lines[index][4:]
    return "\n".join(lines)


def _half(rng: random.Random, text: str, other: str) -> str:
    """The beginning of one file, as of one that is being typed, and sometimes the end of the other."""
    return text[: rng.randrange(len(text) + 1)] + rng.choice(("", other[rng.randrange(len(other) + 1) :]))


def _garbage(rng: random.Random, text: str, other: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(("\0", "\ufeff", "\x0c", "\u2028", "é", "\ud800", "\\", '"""', "(" * 300)) + text[at:]


_ODD = (
    *("x[0]", "(x, *x)", "{**x}", "lambda *a, **k: a", "[y for y in x if x]", "x if x else y", "not x", "x and y or z"),
    *("f'{x!r:>{y}}'", "(yield)", "await x", "x := 1", "-1", "10**100", "...", "None", "'' % x", "x.y.z", "x()()"),
    *("super()", "type(x)", "__name__", "torch", "self", "x < y < z", "print", "x[::2]", "(x for x in x)", "**x"),
)


def _tree(rng: random.Random, text: str, other: str) -> str:
    """Expressions and statements exchanged: with each other, with those of the other file, and with odd ones."""
    try:
        tree, donor = ast.parse(text), ast.parse(other)
    except (SyntaxError, ValueError, RecursionError):
        return text
    kind = rng.choice((ast.expr, ast.expr, ast.stmt, ast.Name))
    donors = [node for node in (*ast.walk(donor), *ast.walk(tree)) if isinstance(node, kind)]
    if kind is ast.expr and rng.random() < 0.3:
        donors = [_parsed(rng.choice(_ODD))]
    slots = [slot for slot in _slots(tree) if isinstance(_held(slot), kind)]
    for _ in range(min(len(slots), rng.choice((1, 2, 6)))):
        _put(rng.choice(slots), rng.choice(donors or [ast.Pass()]))
    try:
        return ast.unparse(ast.fix_missing_locations(tree))
    # A tree that holds itself, or what no source could say.
    except (RecursionError, ValueError, AttributeError, TypeError):
        return text


_Slot = tuple[ast.AST, str, int]


def _slots(tree: ast.AST) -> list[_Slot]:
    """All places of the tree that hold a node."""
    found: list[_Slot] = []
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                found += [(node, name, index) for index in range(len(value))]
            elif isinstance(value, ast.AST):
                found.append((node, name, -1))
    return found


def _held(slot: _Slot) -> object:
    node, name, index = slot
    value = getattr(node, name)
    return value if index < 0 else value[index] if index < len(value) else None


def _put(slot: _Slot, new: ast.AST) -> None:
    node, name, index = slot
    if index < 0:
        setattr(node, name, new)
    elif index < len(getattr(node, name)):
        getattr(node, name)[index] = new


def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return ast.Name("x", ast.Load())


def _nest(rng: random.Random, text: str, other: str) -> str:
    """All of it inside a function, a loop, a class or a branch, twice over."""
    heads = (
        "def f(x=0, *a, **k):",
        "for x in f():",
        "class A(A):",
        "if x:",
        "while x:",
        "with x as y:",
        "async def f():",
    )
    for head in rng.sample(heads, 2):
        text = head + "\n" + "\n".join(f"    {line}" for line in text.split("\n"))
    return text + "\nf(f)\n"


MUTATIONS: Sequence[Mutation] = (_tree,) * 8 + (_token,) * 3 + (_lines,) * 2 + (_nest, _indentation, _half, _garbage)
