"""Commands that Python starts beside itself: `subprocess.run(["torchrun", ...])`, `os.system`, sessions of nox, tasks.

What is put together from constants is known, and anything else a variable from outside."""

from __future__ import annotations

import ast
import itertools
import os
import re
from collections.abc import Iterable

from gpudoctor.lint.launchfiles.command_lists import command_of
from gpudoctor.lint.launchfiles.launchers import launches_in, read_batch
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.python_values import (
    Around,
    PythonText,
    PythonValue,
    PythonValues,
    added,
    name_of,
    text_of,
)
from gpudoctor.lint.launchfiles.shell import Script, read_script
from gpudoctor.lint.launchfiles.shell_words import ShellCommand, ShellVariable, bound_to, show_gpus
from gpudoctor.lint.launchfiles.start import ProgramStart
from gpudoctor.manifest.machines import GPUS_OF_INSTANCE
from gpudoctor.record import replace

_RUNS = frozenset({"run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput"})
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
_SCRIPT = re.compile(r"\s*#!\S*(?:/| )(?:ba|z)?sh\b")
_RETURNED = "return"
"""What a function hands back is kept under this name, which no variable can have."""
_MAX_DEPTH = 3
"""Functions that call each other are followed so deep."""


def read_python(shown: str, text: str) -> list[ProgramStart]:
    """The programs that the commands of a Python file start."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    return _PythonReader(shown, tree).launches


class _PythonReader(PythonValues):
    """A file on its way from top to bottom, with what names hold that are made of constants."""

    def __init__(self, shown: str, tree: ast.Module) -> None:
        super().__init__(tree)
        self.launches: list[ProgramStart] = []
        self._shown = shown
        self._exported: dict[str, PythonText] = {}
        self._called: set[str] = set()
        self._of_nox = "nox" in self.imported
        self._of_submitit = "submitit" in self.imported
        self._of_sagemaker = any((getattr(each, "module", "") or "").startswith("sagemaker") for each in self.imports)
        self._asked: dict[str, PythonValue] = {}
        """What an executor of submitit asks of SLURM."""
        nodes = list(ast.walk(tree))
        # The stretches between the braces of a text belong to it.
        parts = {id(part) for each in nodes if isinstance(each, ast.JoinedStr) for part in each.values}
        for node in nodes:
            if id(node) not in parts:
                self._written(node)
        around = Around()
        self._block(tree.body, around)
        for name, function in self.functions.items():
            if name not in self._called:
                self._block(function.body, replace(around, names=dict(around.names)))

    def _written(self, node: ast.AST) -> None:
        """A batch file that stands in a string, and is written and submitted somewhere."""
        told = self.told(node, Around()) if isinstance(node, (ast.Constant, ast.JoinedStr)) else None
        if isinstance(told, PythonText) and _SCRIPT.match(told.text):
            text = PlacedText(self._shown, _pieces(told))
            script, directives = read_batch(text)
            self.launches += launches_in(script, text, directives)

    def _block(self, body: Iterable[ast.stmt], around: Around) -> None:
        for statement in body:
            self._statement(statement, around)

    def _statement(self, node: ast.stmt, around: Around) -> None:
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
                self._assign(target, self.told(node.value, around), around)
            case ast.AugAssign(target=ast.Name(name), op=ast.Add()):
                around.names[name] = added(around.names.get(name), self.told(node.value, around), node)
            case ast.Return(value) if value is not None:
                self._calls(value, around)
                around.names[_RETURNED] = self.told(value, around)
            case _:
                self._calls(node, around)

    def _assign(self, target: ast.expr, told: PythonValue, around: Around) -> None:
        match target:
            case ast.Name(name):
                around.names[name] = told
            case ast.Subscript(value=held, slice=ast.Constant(str(key))) if isinstance(told, PythonText):
                known = around.names.get(held.id) if isinstance(held, ast.Name) else None
                if isinstance(known, dict):
                    known[key] = told
                elif ast.unparse(held) in ("os.environ", "environ"):
                    self._exported[key] = told

    def _moved(self, node: ast.expr, around: Around) -> str:
        """`with c.cd("sub"):`"""
        if isinstance(node, ast.Call) and name_of(node.func) in ("cd", "chdir") and node.args:
            return text_of(self.told(node.args[0], around))
        return ""

    # --- calls ---

    def _calls(self, node: ast.AST, around: Around) -> None:
        # What is called inside of another call comes first.
        for call in reversed(list(ast.walk(node))):
            if not isinstance(call, ast.Call):
                continue
            name = name_of(call.func)
            if isinstance(call.func, ast.Attribute) and name in ("append", "extend") and call.args:
                self._grown(call.func.value, name, self.told(call.args[0], around), around, call)
            elif self.is_own(call.func) and around.depth < _MAX_DEPTH:
                self._follow(self.functions[name], call, around)
            elif name in _RUNS and call.args:
                self._command(call, name, around)
            elif name == "update_parameters" and self._of_submitit:
                self._asked |= self._given(call, around)
            elif name in ("submit", "map_array") and self._asked:
                self._tasks(call)
            elif self._of_sagemaker and any(each.arg == "entry_point" for each in call.keywords):
                self._estimator(call, around)

    def _grown(self, held: ast.expr, how: str, told: PythonValue, around: Around, node: ast.AST) -> None:
        if isinstance(held, ast.Name) and isinstance(around.names.get(held.id), tuple):
            more = (told,) if how == "append" and isinstance(told, PythonText) else told
            around.names[held.id] = added(around.names[held.id], more, node)

    def _follow(self, function: ast.FunctionDef, call: ast.Call, around: Around) -> None:
        self._called.add(function.name)
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args) if each.arg != "self"]
        given = {name: self.told(value, around) for name, value in zip(names, call.args, strict=False)}
        given |= self._given(call, around)
        known = {**around.names, **dict.fromkeys((_RETURNED, *names)), **given}
        inside = replace(around, names=known, depth=around.depth + 1)
        self._block(function.body, inside)
        self.returned[id(call)] = inside.names.get(_RETURNED)

    def _given(self, call: ast.Call, around: Around) -> dict[str, PythonValue]:
        return {each.arg: self.told(each.value, around) for each in call.keywords if each.arg}

    def _command(self, call: ast.Call, name: str, around: Around) -> None:
        given = self._given(call, around)
        told = self.listed(call.args, around) if self._of_nox else self.told(call.args[0], around)
        environment = given.get("env")
        known = {**self._exported, **(environment if isinstance(environment, dict) else {})}
        variables = {key: self._bound(part) for key, part in known.items()}
        folder, beside = given.get("cwd"), name == "Popen"
        where = text_of(folder) or around.folder
        if isinstance(told, PythonText):
            text = PlacedText(self._shown, _pieces(told))
            script = read_script(text, variables, folder=where, looped=around.looped, background=beside)
            self.launches += launches_in(script, text, {})
        elif isinstance(told, tuple) and told:
            text, made = self._of_words(told, variables, where)
            made = replace(made, looped=around.looped, background=beside)
            self.launches += launches_in(Script((made,), (), ()), text, {})

    def _of_words(
        self, told: tuple[PythonText, ...], variables: dict[str, ShellVariable], where: str
    ) -> tuple[PlacedText, ShellCommand]:
        text, made = command_of(self._shown, [(each.text, _pieces(each)) for each in told], variables, where)
        words = tuple(replace(word, open=each.open) for word, each in zip(made.words, told, strict=True))
        return text, replace(made, words=words)

    def _estimator(self, call: ast.Call, around: Around) -> None:
        """`PyTorch(entry_point="train.py", ...)` of SageMaker starts it on other machines, in several processes where
        `distribution` says so."""
        given = self._given(call, around)
        entry, options, meant = given["entry_point"], given.get("hyperparameters", {}), given.get("distribution", {})
        folder, kind, count = (text_of(given.get(name)) for name in ("source_dir", "instance_type", "instance_count"))
        known = isinstance(meant, dict) and (not meant or meant.keys() & _SPREADS)
        if not isinstance(entry, PythonText) or not known or any(each.arg is None for each in call.keywords):
            return
        gpus = GPUS_OF_INSTANCE.get(kind.removeprefix("ml."))
        launcher = f"torchrun --nnodes={count or '${_}'} --nproc-per-node={gpus or 'gpu'} --rdzv-endpoint=${{_}}"
        words = [PythonText(each, call.func) for each in (launcher if meant else "python").split()]
        told = [PythonText("${_}", call, open=True)]
        if isinstance(options, dict):
            told = [each for name, part in options.items() for each in (PythonText(f"--{name}", part.node), part)]
        text, made = self._of_words((*words, entry, *told), {}, folder)
        variables: dict[str, ShellVariable] = {}
        if gpus is not None:
            show_gpus(variables, gpus, made.at)
        for start in launches_in(Script((replace(made, environment=variables),), (), ()), text, {}):
            word = replace(start.word, parts=(name_of(call.func),))
            self.launches.append(replace(start, word=word, spread_by=_SPREAD_BY))

    def _tasks(self, call: ast.Call) -> None:
        """`executor.submit(train)` of submitit has SLURM start this file's function in each task of a job."""
        options = [
            PythonText(f"--{option}={told.text}", told.node)
            for name, told in self._asked.items()
            if (option := _OF_TASKS.get(name.removeprefix("slurm_"))) and isinstance(told, PythonText)
        ]
        if not any(each.text.startswith("--ntasks") for each in options):
            # Each job is one process by itself.
            return
        program = (PythonText("python", call), PythonText(os.path.basename(self._shown), call))
        text, made = self._of_words((PythonText("srun", call), *options, *program), {}, "")
        for start in launches_in(Script((made,), (), ()), text, {}):
            starters = tuple(replace(each, word=replace(each.word, parts=("submitit",))) for each in start.starters)
            self.launches.append(replace(start, starters=starters, of_function=True))

    def _bound(self, part: PythonText) -> ShellVariable:
        text = PlacedText(self._shown, _pieces(part))
        return bound_to(part.text, text.location(0, len(text.text)))


def _pieces(part: PythonText) -> list[Piece]:
    line, column = getattr(part.node, "lineno", 1), getattr(part.node, "col_offset", 0) + 1
    quoted = column + (isinstance(part.node, ast.Constant) and isinstance(part.node.value, str))
    lines = part.text.splitlines(keepends=True)
    last = getattr(part.node, "end_lineno", line)
    numbered = zip(itertools.count(line), lines, strict=False)
    return [Piece(each, min(number, last), quoted if number == line else 1) for number, each in numbered]
