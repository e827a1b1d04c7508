"""The grammar of the shell, loaded with as little as it takes."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tree_sitter import Parser


@cache
def parser() -> Parser:
    from tree_sitter import Language, Parser

    return Parser(Language(_grammar().language()))


def _grammar() -> Any:
    """The module that holds the grammar, without the package around it: that loads what reads files of queries, which
    takes longer than to read ten scripts."""
    package = find_spec("tree_sitter_bash")
    folders = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("tree_sitter_bash._binding", folders or [])
    if spec is None or spec.loader is None:
        return import_module("tree_sitter_bash")
    binding = module_from_spec(spec)
    spec.loader.exec_module(binding)
    return binding
