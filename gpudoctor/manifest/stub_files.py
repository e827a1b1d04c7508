"""Reads the stubs: what each function takes, what it does, and under which other names it is known.

A stub says with Python's own syntax what there is to know of a library, and nothing is executed of it:

* `def` and `class`, with the words of `effects.py` as decorators and annotations;
* `from accelerate.accelerator import Accelerator as Accelerator` and `from torch.utils.data import *`: what this module
  offers is what that one has, which is the name that everybody here knows it by;
* `gather_for_metrics = gather`, `ne = lt = eq`, `on_process = PartialState.on_process`: the same goes for it;
* `-> tuple[Engine, object]` of a class of the stub, or one that it imports: what it makes, beside something of which no
  more is known;
* `engine: Engine` in a class: each of its objects has one;
* `def __getattr__(self, name) -> Setting`: what all other attributes are;
* `class OutOfMemoryError(RuntimeError)`: an exception, and the one of Python's that it is a kind of;
* `**more`: there are other parameters, which nobody asks about;
* a body: what the library calls of the program there, and in which order. It is followed where the program calls the
  function, with what the program has put in the place of a method. It may name what the stub imports.

What comes of it is plain data, which `compiled.py` keeps, so that no start reads a stub.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Iterator
from typing import Any

from gpudoctor.manifest.effects import WORDS, kind_of

VOCABULARY = "gpudoctor.manifest.effects"
OF_CLASS = ("classmethod", "staticmethod")


class StubError(ValueError):
    """A stub that says something that nobody understands."""


class _StubReader:
    """Reads one stub after the other into the same table."""

    def __init__(self) -> None:
        self.members: dict[str, Any] = {}
        """What is in modules and classes: of a function all that is known, of a value its kind."""
        self.of_class: dict[str, tuple[Any, ...]] = {}
        """What is called without an object: constructors, and methods of classes."""
        self.bases: dict[str, list[str]] = {}
        """The classes, with those that they derive from."""
        self.objects: dict[str, str] = {}
        """Objects that a module offers, and their classes."""
        self.aliases: dict[str, str] = {}
        self.alike: dict[str, str] = {}
        """What the same goes for as for another function or class."""
        self.bodies: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {}
        """What functions do of which there is a body: their text, and the dotted names of what they name."""

    def read(self, text: str, module: str, path: str) -> None:
        """Take in the stub of a module."""
        self._path = path
        statements = ast.parse(text, path).body
        defined = (each.name for each in statements if isinstance(each, (ast.ClassDef, ast.FunctionDef)))
        self._names: dict[str, str] = {name: f"{module}.{name}" for name in defined}
        self._body(statements, module)

    def _body(self, statements: list[ast.stmt], owner: str) -> None:
        for node in statements:
            if isinstance(node, ast.FunctionDef):
                self._function(node, owner)
            elif isinstance(node, ast.ClassDef):
                self._class(node, f"{owner}.{node.name}")
            elif isinstance(node, ast.ImportFrom):
                self._import(node, owner)
            elif isinstance(node, ast.Import):
                self._names |= {each.asname or each.name: each.name for each in node.names}
            elif isinstance(node, ast.Assign):
                self.alike |= {f"{owner}.{ast.unparse(each)}": self._meant(node, owner) for each in node.targets}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                self._value(f"{owner}.{node.target.id}", ast.unparse(node.annotation), owner, node)
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                raise self._error(node, "a stub declares functions, classes, attributes and other names of them")

    def _meant(self, node: ast.Assign, owner: str) -> str:
        """What it gives another name to: something beside it, or of another class."""
        first, _, rest = ast.unparse(node.value).partition(".")
        if rest and first not in self._names:
            raise self._error(node, f"`{first}` is nothing that the stub defines or imports")
        if rest:
            return f"{self._names[first]}.{rest}"
        beside = f"{owner}.{first}"
        return beside if owner in self.bases else self._names.get(first, beside)

    def _class(self, node: ast.ClassDef, name: str) -> None:
        bases = map(ast.unparse, node.bases)
        self.bases[name] = [self._names.get(each, f"{name.rpartition('.')[0]}.{each}") for each in bases]
        self._body(node.body, name)
        # What is said of a class goes for those who make an object of it.
        said = dict(self._effect(each, node) for each in node.decorator_list)
        if said:
            names, kinds, required, returns, effects = self.of_class.get(name, (("", "**"), ("", ""), 0, "", {}))
            self.of_class[name] = (names, kinds, required, returns, {**effects, **said})

    def _value(self, name: str, kind: str, owner: str, node: ast.AST) -> None:
        if f"{owner}.{kind}" in self.bases:
            self.objects[name] = f"{owner}.{kind}"
        elif kind_of(kind):
            self.members[name] = kind
        elif owner in self.bases and kind in self._names:
            self.members[name] = self._names[kind]
        else:
            raise self._error(node, f"`{kind}` is neither a word of effects.py nor a class above")

    def _import(self, node: ast.ImportFrom, owner: str) -> None:
        for each in node.names:
            if not node.level and each.name != "*":
                self._names[each.asname or each.name] = f"{node.module}.{each.name}"
            if node.module in (VOCABULARY, "typing") or node.level:
                continue
            if each.name == "*":
                self.aliases[f"{owner}."] = f"{node.module}."
            elif each.asname == each.name:
                self.aliases[f"{owner}.{each.name}"] = f"{node.module}.{each.name}"

    def _function(self, node: ast.FunctionDef, owner: str) -> None:
        words = [each for each in node.decorator_list if ast.unparse(each) not in OF_CLASS]
        of_class = len(words) < len(node.decorator_list)
        # A method is known by what it is given, without the object.
        first = 1 if owner in self.bases and "staticmethod" not in map(ast.unparse, node.decorator_list) else 0
        parameters = [*node.args.posonlyargs, *node.args.args][first:]
        required = len(parameters) - len(node.args.defaults)
        named = [("", None), *((each.arg, each.annotation) for each in node.args.kwonlyargs)]
        named += [("**", None)] if node.args.kwarg is not None else []
        everything = [*((each.arg, each.annotation) for each in parameters), *named]
        names = tuple([name for name, _ in everything])
        kinds = tuple([ast.unparse(each) if each is not None else "" for _, each in everything])
        returns = ast.unparse(node.returns) if node.returns is not None else ""
        effects = dict(self._effect(each, node) for each in words)
        # What returns None and has no word to it does nothing.
        returns = returns if kind_of(returns) and not (returns == "None" and effects) else self._made(node)
        entry = (names, kinds, required, returns, effects)
        self.members[f"{owner}.{node.name}"] = entry
        # No body but `...`.
        if not all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body):
            self.bodies[f"{owner}.{node.name}"] = self._text(node)
        # Who calls a class calls its constructor.
        called = owner if node.name == "__init__" else f"{owner}.{node.name}" if of_class else ""
        if called:
            self.of_class[called] = entry

    def _text(self, node: ast.FunctionDef) -> tuple[str, tuple[tuple[str, str], ...]]:
        """A function as Python reads it that is given what its body names of other modules, by these names."""
        taken = [each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)]
        named = sorted({each.id for each in ast.walk(node) if isinstance(each, ast.Name)})
        given = {name: self._names[name] for name in named if name in self._names and name not in taken}
        bare = ast.FunctionDef(node.name, node.args, node.body, [], None, None)
        bare.args.kwonlyargs += [ast.arg(name) for name in given]
        bare.args.kw_defaults += [None for _ in given]
        return ast.unparse(ast.fix_missing_locations(bare)), tuple(given.items())

    def _made(self, node: ast.FunctionDef) -> str:
        """What a call returns where that is of classes of the stub or of one that it imports: their dotted names, with
        commas for a tuple, in which also words may stand."""
        names = [ast.unparse(each) for each in _items(node.returns)]
        known = [kind_of(name) or self._names.get(name, "") for name in names]
        return ",".join(known) if any(known) else ""

    def _effect(self, node: ast.expr, of: ast.FunctionDef | ast.ClassDef) -> tuple[str, dict[str, Any]]:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORDS):
            raise self._error(node, f"`{ast.unparse(node)}` is no word of effects.py that is called")
        kind = WORDS[node.func.id]
        said = {each.arg or "": ast.literal_eval(each.value) for each in node.keywords}
        unknown = [*map(ast.unparse, node.args), *(name for name in said if name not in kind.__annotations__)]
        if unknown:
            raise self._error(node, f"`{node.func.id}` says nothing about `{unknown[0]}`")
        takes = [of.args.posonlyargs, of.args.args, of.args.kwonlyargs] if isinstance(of, ast.FunctionDef) else []
        given = [each for kind_of in takes for each in kind_of]
        for name in kind(**said).parameters():
            if name not in [each.arg for each in given]:
                raise self._error(node, f"`{of.name}` has no parameter `{name}`")
        return node.func.id, said

    def _error(self, node: ast.AST, problem: str) -> StubError:
        return StubError(f"{self._path}:{getattr(node, 'lineno', 1)}: {problem}")

    def table(self) -> dict[str, Any]:
        """What was read: `functions` and `values` of modules, `methods` and `attributes` of classes, and `aliases`."""
        for name, known in self.alike.items():
            for said in (self.members, self.of_class, self.bodies):
                if known in said:
                    said[name] = said[known]
            if known in self.bases:
                self.bases[name] = [known]
        for owner in self.bases:
            self._inherit(owner)
        for name, cls in self.objects.items():
            if any(each.rpartition(".")[0] == cls for each in self.bodies):
                # What it does is followed: it remembers what was done with it.
                self.members[name] = cls
            else:
                self._copy(cls, name)
        found: dict[str, dict[str, Any]] = {"functions": {}, "values": {}, "methods": {}, "attributes": {}}
        for name, known in self.members.items():
            in_class = name.rpartition(".")[0] in self.bases
            kinds = ("attributes", "methods") if in_class else ("values", "functions")
            found[kinds[isinstance(known, tuple)]][name] = known
        found["functions"].update(self.of_class)
        errors = {name: base for name, bases in self.bases.items() for each in bases if (base := _python_error(each))}
        return {**found, "aliases": self.aliases, "bodies": self.bodies, "classes": self.bases, "errors": errors}

    def _inherit(self, owner: str) -> None:
        for base in self.bases[owner]:
            if base in self.bases:
                self._inherit(base)
                self._copy(base, owner)

    def _copy(self, owner: str, into: str) -> None:
        for name in [each for each in self.members if each.rpartition(".")[0] == owner]:
            known = f"{into}{name[len(owner) :]}"
            if name in self.bodies and known not in self.members:
                self.bodies[known] = self.bodies[name]
            self.members.setdefault(known, self.members[name])


def _items(annotation: ast.expr | None) -> list[ast.expr]:
    if isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
        return annotation.slice.elts
    return [annotation] if annotation is not None else []


def _python_error(base: str) -> str:
    """Python's own exception that a class derives from; empty where it is none."""
    name = base.rpartition(".")[2]
    found = getattr(builtins, name, None)
    return name if isinstance(found, type) and issubclass(found, BaseException) else ""


def stub_files(folder: str) -> Iterator[tuple[str, str]]:
    """The stubs below a folder, each with the name of its module."""
    for where, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            if file.endswith(".pyi"):
                path = os.path.join(where, file)
                module = os.path.relpath(path, folder)[: -len(".pyi")].replace(os.sep, ".")
                yield path, module.removesuffix(".__init__")


def read_stubs(folder: str) -> dict[str, Any]:
    """What the stubs below a folder say."""
    reader = _StubReader()
    for path, module in stub_files(folder):
        with open(path, encoding="utf-8") as file:
            reader.read(file.read(), module, path)
    return reader.table()
