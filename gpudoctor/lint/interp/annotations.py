"""What annotations say of names: which class of the project an object is of, where nothing else tells."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterator

from gpudoctor.lint.domain.abstract_state import ClassState, ObjectState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import items_held
from gpudoctor.lint.domain.function import Class, Function, Instance, ProjectModule
from gpudoctor.lint.domain.symbols import Setting
from gpudoctor.lint.domain.value import Unknown, Value, Values, singleton, text_of
from gpudoctor.lint.interface.contents import ancestry, annotated_with, find_in_class
from gpudoctor.lint.interface.hooks import HOOKS
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.imports import member, resolved
from gpudoctor.lint.library.library_names import MAKE_FIELDS, gives_settings
from gpudoctor.lint.source.project import ModuleFile

_OPEN = frozenset({"abc.ABC", "abc.ABCMeta", "typing.Protocol", "typing_extensions.Protocol", "enum.Enum"})
_AROUND = frozenset({"Optional", "Annotated", "Final", "Union"})
"""`Optional[Config]` is a `Config`, if it is anything."""
_NOT_CHOSEN = frozenset({"Callable", "ClassVar", "Type", "type"})
"""A class or a function that stands among settings is there for the code."""


def has_fields(cls: Class) -> bool:
    """Its constructor takes what its annotated names are."""
    return cls.is_dataclass or any(base.startswith(MAKE_FIELDS) for base in cls.library_bases)


def annotated_class(m: Evaluator, annotation: ast.expr | None, scope: Hashable) -> Class | None:
    """The class of the project that an annotation in this module means: of `Config`, `"Config"`, `Config | None`."""
    only = _meant(m, annotation, scope)
    return only if isinstance(only, Class) else None


def _meant(m: Evaluator, node: ast.expr | None, scope: Hashable) -> Value | None:
    match node:
        case ast.Constant(value=str(text)):
            return _meant(m, _parsed(text), scope)
        case ast.BinOp(op=ast.BitOr()):
            return _the_one(m, [node.left, node.right], scope)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _AROUND:
            inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return _the_one(m, inner if name == "Union" else inner[:1], scope)
        case ast.Name():
            found = m.read((scope, node.id))
            return resolved(m, found, node).single if found is not None else None
        case ast.Attribute():
            owner = _meant(m, node.value, scope)
            return member(m, owner, node.attr, node).single if isinstance(owner, ProjectModule) else None
    return None


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None


def _the_one(m: Evaluator, nodes: list[ast.expr], scope: Hashable) -> Value | None:
    """What one of these means, where the others mean nothing of the project's."""
    found = [each for each in (_meant(m, node, scope) for node in nodes) if isinstance(each, Class)]
    return found[0] if len(found) == 1 else None


def _fields(m: Evaluator, cls: Class) -> Iterator[tuple[str, Class | None]]:
    """The fields of a class and its bases, each with the class of settings that it is of."""
    for each in reversed(list(ancestry(cls))):
        scope = _module_of(m, each)
        for statement in each.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                if annotated_with(statement.annotation) in _NOT_CHOSEN:
                    continue
                inner = annotated_class(m, statement.annotation, scope) if scope is not None else None
                yield statement.target.id, inner if inner is not None and has_fields(inner) else None


def _chosen(m: Evaluator, cls: Class) -> Iterator[tuple[str, Class | None, Values | None]]:
    """What is chosen of a class: each field, or each parameter of its constructor, with the class that it is of, and
    what it is where nobody chooses."""
    own = find_in_class(m, cls, "__init__") if not has_fields(cls) else None
    init = own.single if own is not None else None
    if not isinstance(init, Function):
        yield from ((name, inner, find_in_class(m, cls, name)) for name, inner in dict(_fields(m, cls)).items())
        return
    names = init.node.args
    taken = [*names.posonlyargs, *names.args][1:]
    known = dict(zip([each.arg for each in taken[::-1]], init.defaults[::-1], strict=False)) | dict(
        init.keyword_defaults
    )
    for each in (*taken, *names.kwonlyargs):
        inner = annotated_class(m, each.annotation, init.scopes[-1]) if each.arg not in known else None
        yield each.arg, inner if inner is not None and not _is_open(inner) else None, known.get(each.arg)


def _module_of(m: Evaluator, cls: Class) -> Hashable | None:
    path = cls.place.path
    files = (scope for scope, each in m.packages.items() if isinstance(each, ModuleFile) and each.source.shown == path)
    return next(files, None)


def object_of_settings(
    m: Evaluator,
    cls: Class,
    node: ast.AST,
    chosen: Callable[[str, Values | None], Values] | None = None,
    inside: tuple[Class, ...] = (),
) -> Values:
    """An object of a class whose fields the user or a file chooses, also those of the objects in it. `chosen` says what
    one is, by its name and what it is where nobody chooses."""
    given: dict[str, Values] = {}
    for name, inner, default in _chosen(m, cls):
        if inner is not None and inner is not cls and inner not in inside:
            given[name] = object_of_settings(m, inner, node, chosen, (*inside, cls))
        elif chosen is not None:
            given[name] = chosen(name, default)
        else:
            given[name] = _named_by_text(m, cls, name, node) or singleton(
                Unknown(Setting(name), "chosen at the start", name, config=True)
            )
    made = m.call(singleton(cls), Arguments((), given), node)
    for each in made:
        # OmegaConf's node of the class is a dictionary as well, and a file may have put more into it.
        if chosen is None and isinstance(each, Instance):
            m.set_flag(each, ObjectState.opened)
    return made


def _named_by_text(m: Evaluator, cls: Class, name: str, node: ast.AST) -> Values | None:
    """`local_rank: int = "${oc.env:LOCAL_RANK}"`."""
    written = find_in_class(m, cls, name)
    text = text_of(written.single) if written is not None else None
    return HOOKS.written_settings[0](m, text, m.place(node)) if text is not None else None


def field_without_value(m: Evaluator, cls: Class, name: str, node: ast.AST) -> Values | None:
    """What a field is that nobody gave a value, where its annotation names a class of settings."""
    inner = dict(_fields(m, cls)).get(name)
    if inner is None or inner is cls or find_in_class(m, cls, name) is not None:
        return None
    return object_of_settings(m, inner, node, inside=(cls,))


def as_annotated(m: Evaluator, annotation: ast.expr, values: Values, node: ast.AST, scope: Hashable) -> Values:
    """`trainer: Trainer = instantiate(config.trainer)`: what a setting has chosen is of that class, if of no other."""
    only = values.single
    if not (isinstance(only, Unknown) and is_chosen(only)):
        return values
    cls = annotated_class(m, annotation, scope)
    if cls is None or _is_open(cls) or items_held(m.state(cls, ClassState.subclasses)):
        return values
    fields = has_fields(cls)
    made = object_of_settings(m, cls, node) if fields else m.call(singleton(cls), Arguments((), {}, (values,)), node)
    # It may be of a class below that one, which has more.
    for told in HOOKS.opened:
        told(m, made)
    return made


def is_chosen(value: Unknown) -> bool:
    """Whoever starts the program has chosen it, or a library made it of what he has chosen."""
    return value.config or gives_settings(value.escaped_from)


def _is_open(cls: Class) -> bool:
    """It leaves to the classes below it what is done: they are what is meant."""
    if not _OPEN.isdisjoint(cls.library_bases):
        return True
    nodes = (each for method in cls.node.body if isinstance(method, ast.FunctionDef) for each in method.body[-1:])
    return any(isinstance(each, ast.Raise) for each in nodes)
