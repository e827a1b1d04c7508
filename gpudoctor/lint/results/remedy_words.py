"""What a remedy says in the words of the file that it is about: rules write `dist.get_rank()`, a file may know another
name for that, or none."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from gpudoctor.diagnostic import Finding
from gpudoctor.lint.source.file import SourceFile
from gpudoctor.lint.source.syntax_walk import imported_names, walk
from gpudoctor.record import replace

USUAL = {"dist": "torch.distributed", "nn": "torch.nn"}
"""The short names that rules use, as most programs do."""
OBJECTS = {
    "accelerator.is_main_process": "accelerate.PartialState().is_main_process",
    "accelerator.local_process_index": "accelerate.PartialState().local_process_index",
    "accelerator.local_main_process_first()": "accelerate.PartialState().local_main_process_first()",
    "accelerator.wait_for_everyone()": "accelerate.PartialState().wait_for_everyone()",
    "trainer.is_world_process_zero()": "accelerate.PartialState().is_main_process",
    "trainer.args.main_process_first()": "accelerate.PartialState().local_main_process_first()",
    "trainer.is_global_zero": "lightning.pytorch.utilities.rank_zero_only.rank == 0",
}
"""What is asked of the object of a framework, and how a file asks that has none."""
_CODE = re.compile(r"`[^`]+`")
_SHORT = re.compile(rf"(?<![\w.\"'])({'|'.join(USUAL)})\.(\w+)")


def in_words_of(source: SourceFile | None, finding: Finding) -> Finding:
    """The finding, its remedy naming modules as the file calls them, and in full where it has no name for them."""
    # Looked for first, since few remedies name a module.
    asked = [each for each in OBJECTS if each in finding.remedy]
    if source is None or (not asked and _SHORT.search(finding.remedy) is None):
        return finding
    nodes = [*walk(source.tree)]
    known = _imported(nodes)

    def called(match: re.Match[str]) -> str:
        return _name(f"{USUAL[match[1]]}.{match[2]}", known)

    remedy = _CODE.sub(lambda code: _SHORT.sub(called, code[0]), finding.remedy)
    for each in asked:
        remedy = remedy.replace(each, _asked(each, nodes, finding.location.line))
    return replace(finding, remedy=remedy)


def _asked(question: str, nodes: Sequence[ast.AST], line: int) -> str:
    """The question to an object of a framework: by its name, as an attribute of `self`, or in another way."""
    name = question.partition(".")[0]
    named = any(name in (getattr(node, "id", ""), getattr(node, "arg", "")) for node in nodes)
    if named and not _is_made_later(name, nodes, line):
        return question
    kept = (node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr == name)
    of_self = any(isinstance(each, ast.Name) and each.id == "self" for each in kept)
    return f"self.{question}" if of_self else OBJECTS[question]


def _is_made_later(name: str, nodes: Sequence[ast.AST], line: int) -> bool:
    """The function of this line, or the file outside of all functions, gives something that name only behind it."""
    around = [each for each in nodes if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [each for each in around if each.lineno <= line <= (each.end_lineno or line)]
    inside = walk(max(around, key=lambda each: each.lineno)) if around else nodes
    made = [
        each.lineno
        for each in inside
        if (isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store))
        or (isinstance(each, ast.arg) and each.arg == name)
    ]
    return bool(made) and min(made) > line


def _imported(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """What the imports of a file bring in, wherever they stand: dotted names of libraries, and how it calls them."""
    found: dict[str, str] = {}
    for name, dotted in imported_names(nodes):
        found.setdefault(dotted, name)
    return found


def _name(dotted: str, known: Mapping[str, str]) -> str:
    module, _, last = dotted.rpartition(".")
    if module in known:
        return f"{known[module]}.{last}"
    return known.get(dotted, dotted)
