"""What the source of a class says about several processes: whether its objects may know which one they are in."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from gpudoctor.lint.values.function import Class

RANKS = r"(?i)rank|world|replica|shard|node|dist|split|process|parallel|gpu"
"""Words of whoever asks for its rank, or leaves it to another object."""
WORKERS = r"(?i)worker"
CHANCE = r"(?i)rand|shuffle|choice|sample|perm|cycle|repeat|seed|infinite"
"""What draws at random gives each process something else, and what never ends has no share."""
EVEN = r"len|pad|total|even|min|trunc|repeat|cycle|num_samples|ceil|floor|limit|max|islice|steps|join"
"""Words of whoever makes the shares of the ranks equal, or ends all of them after as many samples."""


def unaware_of_ranks(cls: Class) -> bool:
    """Nothing in the class, nor in those above it, speaks of ranks: every process gets the same of its objects."""
    return not _speaks(cls, RANKS)


def unaware_of_workers(cls: Class) -> bool:
    """Nothing in the class, nor in those above it, speaks of the workers of a loader."""
    return not _speaks(cls, WORKERS)


def reads_straight_through(cls: Class) -> bool:
    """`__iter__` goes over what the object holds, once and in order, and calls no function of the project."""
    return "__iter__" in _methods(cls) and not _speaks(cls, CHANCE) and not _is_endless(cls) and not _calls_out(cls)


def never_ends(cls: Class) -> bool:
    """Its objects are iterated for as long as somebody asks, or draw what they give at random."""
    return _speaks(cls, r"(?i)cycle|infinite|randint|choice|replacement") or _is_endless(cls)


def yields_by_pieces(cls: Class) -> bool:
    """`for path in files: for line in open(path): yield line`, and nothing that makes the shares equal."""
    if not cls.complete or _is_endless(cls) or _speaks(cls, EVEN):
        return False
    methods = [node for each in _family(cls) for node in each.node.body if isinstance(node, ast.FunctionDef)]
    outer = [
        node for each in methods if each.name == "__iter__" for node in ast.walk(each) if isinstance(node, ast.For)
    ]
    return any(_is_piece(inner, loop) for loop in outer for inner in ast.walk(loop) if inner is not loop)


def _is_piece(inner: ast.AST, loop: ast.For) -> bool:
    """A loop over what was opened by the name of the outer one."""
    if not isinstance(inner, ast.For) or not isinstance(loop.target, ast.Name):
        return False
    opened = [node.items[0] for node in ast.walk(loop) if isinstance(node, ast.With)]
    sources: list[ast.AST] = [inner.iter, *(each.context_expr for each in opened)]
    calls = [node for each in sources for node in ast.walk(each) if isinstance(node, ast.Call)]
    return any(isinstance(arg, ast.Name) and arg.id == loop.target.id for call in calls for arg in call.args)


def _speaks(cls: Class, words: str) -> bool:
    # Of a base that could not be found anything may be said.
    return not cls.complete or any(re.search(words, name) for each in _family(cls) for name in _names(each))


def _family(cls: Class) -> Iterator[Class]:
    yield cls
    for base in cls.bases:
        if isinstance(base, Class):
            yield from _family(base)


def _methods(cls: Class) -> set[str]:
    return {each.name for one in _family(cls) for each in one.node.body if isinstance(each, ast.FunctionDef)}


def _names(cls: Class) -> Iterator[str]:
    """All names in the body of a class, but for those of its own kind: `class RandomCrops(Dataset)`."""
    for statement in cls.node.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, (ast.arg, ast.keyword)):
                yield node.arg or ""
            elif isinstance(node, ast.FunctionDef):
                yield node.name


def _is_endless(cls: Class) -> bool:
    loops = (node for each in _family(cls) for node in ast.walk(each.node) if isinstance(node, ast.While))
    return any(isinstance(loop.test, ast.Constant) for loop in loops)


def _calls_out(cls: Class) -> bool:
    """A function that is neither built in nor a method may know the rank."""
    calls = (node for each in _family(cls) for node in ast.walk(each.node) if isinstance(node, ast.Call))
    plain = {node.func.id for node in calls if isinstance(node.func, ast.Name)}
    return any(not hasattr(builtins, name) and name not in ("islice", "get_worker_info") for name in plain)
