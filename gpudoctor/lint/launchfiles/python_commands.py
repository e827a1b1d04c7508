"""Commands that Python starts beside itself: `subprocess.run(["torchrun", ...])`, `os.system`, sessions of nox, tasks.

What is put together from constants is known, and anything else a variable from outside."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from gpudoctor.lint.launchfiles.command_lists import command_of
from gpudoctor.lint.launchfiles.launchers import launches_in, read_batch
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.shell import Script, read_script
from gpudoctor.lint.launchfiles.shell_output import calculated
from gpudoctor.lint.launchfiles.shell_words import ShellCommand, ShellVariable, bound_to, show_gpus
from gpudoctor.record import dataclass, field, replace

if TYPE_CHECKING:
    from gpudoctor.lint.launchfiles.start import ProgramStart

_RUNS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput"})
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%"}
_OF_TASKS = {
    **dict.fromkeys(("tasks_per_node", "ntasks_per_node"), "ntasks-per-node"),
    "nodes": "nodes",
    "gpus_per_node": "gpus-per-node",
    "gpus_per_task": "gpus-per-task",
}
"""What an executor of submitit calls the options of SLURM."""
_SPREAD_BY = '`distribution={"torch_distributed": {"enabled": True}}`'
_SPREADS = frozenset({"torch_distributed", "pytorchddp", "smdistributed"})
"""What has SageMaker start a process for each GPU."""
_GPUS_OF = {
    **dict.fromkeys(
        ("p3.2xlarge", "g4dn.xlarge", "g4dn.2xlarge", "g5.xlarge", "g5.2xlarge", "g5.4xlarge", "g6.xlarge"), 1
    ),
    **dict.fromkeys(("p3.8xlarge", "g4dn.12xlarge", "g5.12xlarge", "g5.24xlarge", "g6.12xlarge", "g6.24xlarge"), 4),
    **dict.fromkeys(("p3.16xlarge", "p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "g5.48xlarge"), 8),
}
_SCRIPT = re.compile(r"\s*#!\S*(?:/| )(?:ba|z)?sh\b")
_RETURNED = "return"
"""What a function hands back is kept under this name, which no variable can have."""
_MAX_DEPTH = 3
"""Functions that call each other are followed so deep."""


@dataclass(frozen=True)
class _PythonText:
    """A word, or a text; `open` where it may be several words or none, `is_number` where Python counts with it."""

    text: str
    node: ast.AST
    open: bool = False
    is_number: bool = False


_PythonValue: TypeAlias = "_PythonText | tuple[_PythonText, ...] | dict[str, _PythonText] | None"


def read_python(shown: str, text: str) -> list[ProgramStart]:
    """The programs that the commands of a Python file start."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    return _PythonReader(shown, tree).launches


@dataclass
class _Around:
    """How a statement is reached."""

    names: dict[str, _PythonValue] = field(default_factory=dict)
    folder: str = ""
    looped: bool = False
    depth: int = 0


class _PythonReader:
    """A file on its way from top to bottom, with what names hold that are made of constants."""

    def __init__(self, shown: str, tree: ast.Module) -> None:
        self.launches: list[ProgramStart] = []
        self._shown = shown
        self._exported: dict[str, _PythonText] = {}
        self._functions = {each.name: each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}
        self._called: set[str] = set()
        self._returned: dict[int, _PythonValue] = {}
        imports = [each for each in ast.walk(tree) if isinstance(each, (ast.Import, ast.ImportFrom))]
        self._imported = {alias.asname or alias.name for each in imports for alias in each.names}
        self._of_nox = "nox" in self._imported
        self._of_submitit = "submitit" in self._imported
        self._of_sagemaker = any((getattr(each, "module", "") or "").startswith("sagemaker") for each in imports)
        self._asked: dict[str, _PythonValue] = {}
        """What an executor of submitit asks of SLURM."""
        nodes = list(ast.walk(tree))
        self._options = dict(each for node in nodes for each in _option_of(node))
        # The stretches between the braces of a text belong to it.
        parts = {id(part) for each in nodes if isinstance(each, ast.JoinedStr) for part in each.values}
        for node in nodes:
            if id(node) not in parts:
                self._written(node)
        around = _Around()
        self._block(tree.body, around)
        for name, function in self._functions.items():
            if name not in self._called:
                self._block(function.body, replace(around, names=dict(around.names)))

    def _written(self, node: ast.AST) -> None:
        """A batch file that stands in a string, and is written and submitted somewhere."""
        told = self._told(node, _Around()) if isinstance(node, (ast.Constant, ast.JoinedStr)) else None
        if isinstance(told, _PythonText) and _SCRIPT.match(told.text):
            text = PlacedText(self._shown, _pieces(told))
            script, directives = read_batch(text)
            self.launches += launches_in(script, text, directives)

    def _block(self, body: Iterable[ast.stmt], around: _Around) -> None:
        for statement in body:
            self._statement(statement, around)

    def _statement(self, node: ast.stmt, around: _Around) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return
            case ast.ClassDef():
                self._block(node.body, around)
            case ast.For() | ast.While() | ast.AsyncFor():
                for each in ast.walk(node.target) if not isinstance(node, ast.While) else ():
                    around.names.pop(each.id, None) if isinstance(each, ast.Name) else None
                self._block([*node.body, *node.orelse], replace(around, looped=True))
            case ast.With():
                inside = [self._moved(item.context_expr, around) for item in node.items]
                folder = next((each for each in inside if each), around.folder)
                self._block(node.body, replace(around, folder=folder))
            case ast.If() | ast.Try():
                parts = [node.body, node.orelse, *([node.finalbody] if isinstance(node, ast.Try) else [])]
                for part in parts:
                    self._block(part, around)
            case ast.Assign(targets=[target]):
                self._calls(node.value, around)
                self._assign(target, self._told(node.value, around), around)
            case ast.AugAssign(target=ast.Name(name), op=ast.Add()):
                around.names[name] = _added(around.names.get(name), self._told(node.value, around), node)
            case ast.Return(value) if value is not None:
                self._calls(value, around)
                around.names[_RETURNED] = self._told(value, around)
            case _:
                self._calls(node, around)

    def _assign(self, target: ast.expr, told: _PythonValue, around: _Around) -> None:
        match target:
            case ast.Name(name):
                around.names[name] = told
            case ast.Subscript(value=held, slice=ast.Constant(str(key))) if isinstance(told, _PythonText):
                known = around.names.get(held.id) if isinstance(held, ast.Name) else None
                if isinstance(known, dict):
                    known[key] = told
                elif ast.unparse(held) in ("os.environ", "environ"):
                    self._exported[key] = told

    def _moved(self, node: ast.expr, around: _Around) -> str:
        """`with c.cd("sub"):`"""
        if isinstance(node, ast.Call) and _name(node.func) in ("cd", "chdir") and node.args:
            return _text_of(self._told(node.args[0], around))
        return ""

    # --- calls ---

    def _calls(self, node: ast.AST, around: _Around) -> None:
        # What is called inside of another call comes first.
        for call in reversed(list(ast.walk(node))):
            if not isinstance(call, ast.Call):
                continue
            name = _name(call.func)
            if isinstance(call.func, ast.Attribute) and name in ("append", "extend") and call.args:
                self._grown(call.func.value, name, self._told(call.args[0], around), around, call)
            elif self._is_own(call.func) and around.depth < _MAX_DEPTH:
                self._follow(self._functions[name], call, around)
            elif name in _RUNS and call.args:
                self._command(call, name, around)
            elif name == "update_parameters" and self._of_submitit:
                self._asked |= self._given(call, around)
            elif name in ("submit", "map_array") and self._asked:
                self._tasks(call)
            elif self._of_sagemaker and any(each.arg == "entry_point" for each in call.keywords):
                self._estimator(call, around)

    def _grown(self, held: ast.expr, how: str, told: _PythonValue, around: _Around, node: ast.AST) -> None:
        if isinstance(held, ast.Name) and isinstance(around.names.get(held.id), tuple):
            more = (told,) if how == "append" and isinstance(told, _PythonText) else told
            around.names[held.id] = _added(around.names[held.id], more, node)

    def _is_own(self, func: ast.expr) -> bool:
        """A function of the file, or a method of what it has made."""
        held = func.value if isinstance(func, ast.Attribute) else None
        own = isinstance(func, ast.Name) or (isinstance(held, ast.Name) and held.id not in self._imported)
        return own and _name(func) in self._functions

    def _follow(self, function: ast.FunctionDef, call: ast.Call, around: _Around) -> None:
        self._called.add(function.name)
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args) if each.arg != "self"]
        given = {name: self._told(value, around) for name, value in zip(names, call.args, strict=False)}
        given |= self._given(call, around)
        known = {**around.names, **dict.fromkeys((_RETURNED, *names)), **given}
        inside = replace(around, names=known, depth=around.depth + 1)
        self._block(function.body, inside)
        self._returned[id(call)] = inside.names.get(_RETURNED)

    def _given(self, call: ast.Call, around: _Around) -> dict[str, _PythonValue]:
        return {each.arg: self._told(each.value, around) for each in call.keywords if each.arg}

    def _command(self, call: ast.Call, name: str, around: _Around) -> None:
        given = self._given(call, around)
        told = self._listed(call.args, around) if self._of_nox else self._told(call.args[0], around)
        environment = given.get("env")
        known = {**self._exported, **(environment if isinstance(environment, dict) else {})}
        variables = {key: self._bound(part) for key, part in known.items()}
        folder, beside = given.get("cwd"), name == "Popen"
        where = _text_of(folder) or around.folder
        if isinstance(told, _PythonText):
            text = PlacedText(self._shown, _pieces(told))
            script = read_script(text, variables, folder=where, looped=around.looped, background=beside)
            self.launches += launches_in(script, text, {})
        elif isinstance(told, tuple) and told:
            text, made = self._of_words(told, variables, where)
            made = replace(made, looped=around.looped, background=beside)
            self.launches += launches_in(Script((made,), (), ()), text, {})

    def _of_words(
        self, told: tuple[_PythonText, ...], variables: dict[str, ShellVariable], where: str
    ) -> tuple[PlacedText, ShellCommand]:
        text, made = command_of(self._shown, [(each.text, _pieces(each)) for each in told], variables, where)
        words = tuple(replace(word, open=each.open) for word, each in zip(made.words, told, strict=True))
        return text, replace(made, words=words)

    def _estimator(self, call: ast.Call, around: _Around) -> None:
        """`PyTorch(entry_point="train.py", ...)` of SageMaker starts it on other machines, in several processes where
        `distribution` says so."""
        given = self._given(call, around)
        entry, options, meant = given["entry_point"], given.get("hyperparameters", {}), given.get("distribution", {})
        folder, kind, count = (_text_of(given.get(name)) for name in ("source_dir", "instance_type", "instance_count"))
        known = isinstance(meant, dict) and (not meant or meant.keys() & _SPREADS)
        if not isinstance(entry, _PythonText) or not known or any(each.arg is None for each in call.keywords):
            return
        gpus = _GPUS_OF.get(kind.removeprefix("ml."))
        launcher = f"torchrun --nnodes={count or '${_}'} --nproc-per-node={gpus or 'gpu'} --rdzv-endpoint=${{_}}"
        words = [_PythonText(each, call.func) for each in (launcher if meant else "python").split()]
        told = [_PythonText("${_}", call, open=True)]
        if isinstance(options, dict):
            told = [each for name, part in options.items() for each in (_PythonText(f"--{name}", part.node), part)]
        text, made = self._of_words((*words, entry, *told), {}, folder)
        variables: dict[str, ShellVariable] = {}
        if gpus is not None:
            show_gpus(variables, gpus, made.at)
        for start in launches_in(Script((replace(made, environment=variables),), (), ()), text, {}):
            word = replace(start.word, parts=(_name(call.func),))
            self.launches.append(replace(start, word=word, spread_by=_SPREAD_BY))

    def _tasks(self, call: ast.Call) -> None:
        """`executor.submit(train)` of submitit has SLURM start this file's function in each task of a job."""
        options = [
            _PythonText(f"--{option}={told.text}", told.node)
            for name, told in self._asked.items()
            if (option := _OF_TASKS.get(name.removeprefix("slurm_"))) and isinstance(told, _PythonText)
        ]
        program = (_PythonText("python", call), _PythonText(os.path.basename(self._shown), call))
        text, made = self._of_words((_PythonText("srun", call), *options, *program), {}, "")
        for start in launches_in(Script((made,), (), ()), text, {}):
            starters = tuple(replace(each, word=replace(each.word, parts=("submitit",))) for each in start.starters)
            self.launches.append(replace(start, starters=starters))

    def _bound(self, part: _PythonText) -> ShellVariable:
        text = PlacedText(self._shown, _pieces(part))
        return bound_to(part.text, text.location(0, len(text.text)))

    # --- values ---

    def _told(self, node: ast.expr, around: _Around) -> _PythonValue:
        """What an expression says: a text, words, or variables; unknown parts are variables of the shell."""
        match node:
            case ast.Constant(value) if isinstance(value, (str, int)):
                return _PythonText(str(value), node, is_number=isinstance(value, int))
            case ast.JoinedStr(values):
                parts = [self._told(each, around) for each in values]
                return _PythonText(
                    "".join(each.text if isinstance(each, _PythonText) else "${_}" for each in parts), node
                )
            case ast.FormattedValue(value):
                return self._told(value, around)
            case ast.Name(name):
                known = around.names.get(name)
                return known if known is not None else _PythonText(f"${{{name}}}", node)
            case ast.List(items) | ast.Tuple(items):
                return self._listed(items, around)
            case ast.BinOp(left, sign, right):
                return _combined(self._told(left, around), sign, self._told(right, around), node)
            case ast.Dict(keys, values):
                found: dict[str, _PythonText] = {}
                for key, value in zip(keys, values, strict=True):
                    said = self._told(value, around)
                    if key is None and isinstance(said, dict):
                        found |= said
                    elif isinstance(key, ast.Constant):
                        found[str(key.value)] = said if isinstance(said, _PythonText) else _PythonText("${_}", value)
                return found
            case ast.Call(func) if self._is_own(func):
                known = self._returned.get(id(node))
                return known if known is not None else _PythonText("${_}", node)
            case ast.Call(func, arguments):
                return self._made(func, arguments, node, around)
            case ast.Attribute(attr="executable"):
                return _PythonText("python", node)
            case ast.Attribute(attr=name) if name in self._options:
                return _PythonText(f"${{{name}:-{self._options[name]}}}", node)
        return _PythonText("${_}", node)

    def _listed(self, items: Iterable[ast.expr], around: _Around) -> tuple[_PythonText, ...]:
        found: list[_PythonText] = []
        for item in items:
            inner = item.value if isinstance(item, ast.Starred) else item
            told = self._told(inner, around)
            if isinstance(item, ast.Starred):
                found += told if isinstance(told, tuple) else [_PythonText("${_}", item, open=True)]
            else:
                found.append(told if isinstance(told, _PythonText) else _PythonText("${_}", item))
        return tuple(found)

    def _made(self, func: ast.expr, arguments: list[ast.expr], node: ast.Call, around: _Around) -> _PythonValue:
        held = self._told(func.value, around) if isinstance(func, ast.Attribute) else None
        first = self._told(arguments[0], around) if arguments else None
        match _name(func):
            case "split" if isinstance(text := first if first is not None else held, _PythonText):
                return tuple(_PythonText(each, text.node) for each in text.text.split())
            case "join" if isinstance(first, tuple):
                return _PythonText(" ".join(each.text for each in first), node)
            case "str" if isinstance(first, _PythonText):
                return first
            case "dict":
                given = {each.arg: self._told(each.value, around) for each in node.keywords if each.arg}
                return {key: part for key, part in given.items() if isinstance(part, _PythonText)}
            case "copy" if isinstance(func, ast.Attribute) and ast.unparse(func.value).endswith("environ"):
                return {}
        return _PythonText("${_}", node)


def _combined(left: _PythonValue, sign: ast.operator, right: _PythonValue, node: ast.AST) -> _PythonValue:
    if isinstance(left, _PythonText) and isinstance(right, _PythonText) and (left.is_number or right.is_number):
        numbers = [int(each.text) if each.text.isdecimal() else None for each in (left, right)]
        number = calculated(_SIGNS.get(type(sign), ""), *numbers)
        return _PythonText(str(number) if number is not None else "${_}", node, is_number=True)
    return _added(left, right, node) if isinstance(sign, ast.Add) else _PythonText("${_}", node)


def _added(left: _PythonValue, right: _PythonValue, node: ast.AST) -> _PythonValue:
    if isinstance(left, tuple):
        return (*left, *(right if isinstance(right, tuple) else (_PythonText("${_}", node, open=True),)))
    if isinstance(left, _PythonText) and isinstance(right, _PythonText):
        return _PythonText(left.text + right.text, node)
    return None


def _option_of(node: ast.AST) -> Iterator[tuple[str, str]]:
    """`parser.add_argument("--gpus", default="0,1")`: what it is where nobody says otherwise."""
    if not isinstance(node, ast.Call) or _name(node.func) != "add_argument":
        return
    flags = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    for each in node.keywords:
        if each.arg == "default" and isinstance(each.value, ast.Constant) and isinstance(each.value.value, (str, int)):
            yield from ((flag.lstrip("-").replace("-", "_"), str(each.value.value)) for flag in flags)


def _text_of(told: _PythonValue) -> str:
    return told.text if isinstance(told, _PythonText) else ""


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _pieces(part: _PythonText) -> list[Piece]:
    line, column = getattr(part.node, "lineno", 1), getattr(part.node, "col_offset", 0) + 1
    quoted = column + (isinstance(part.node, ast.Constant) and isinstance(part.node.value, str))
    lines = part.text.splitlines(keepends=True)
    last = getattr(part.node, "end_lineno", line)
    numbered = zip(itertools.count(line), lines, strict=False)
    return [Piece(each, min(number, last), quoted if number == line else 1) for number, each in numbered]
