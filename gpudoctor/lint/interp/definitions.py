"""Functions and classes of the project, with what their decorators make of them."""

from __future__ import annotations

import ast

from gpudoctor.lint.domain.abstract_state import PROCESS, ProcessState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.function import Class, ContextManager, Function, Library, Method
from gpudoctor.lint.domain.value import Unknown, Value, Values, singleton
from gpudoctor.lint.interp.attributes import PROPERTIES, library_call
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.function_traits import Registrar
from gpudoctor.lint.interp.limits import MAX_DECORATED
from gpudoctor.lint.interp.metaclasses import metaclass_of, tell_those_above
from gpudoctor.lint.interp.position import Frame
from gpudoctor.lint.library.library_names import MAKE_FIELDS, is_harmless
from gpudoctor.lint.library.register import MODELS
from gpudoctor.record import replace

KINDS = {"staticmethod": "staticmethod", "classmethod": "classmethod", "property": "property"}


def define_function(m: Evaluator, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Values:
    """The value of a `def`, decorators applied from the innermost out."""
    kind, inner, library = "function", 0, []
    others: list[tuple[Values, ast.expr]] = []
    # The innermost decorator is evaluated last and applied first; only the latter matters here.
    for decorator in reversed(node.decorator_list):
        values = m.evaluate(decorator)
        name = _library_name(values)
        if name.removeprefix("builtins.") in KINDS:
            kind, inner = KINDS[name.removeprefix("builtins.")], len(others)
        # Under several roots: functools, django, werkzeug.
        elif name.endswith("cached_property"):
            kind, inner = "cached", len(others)
        elif name:
            library.append(name)
        else:
            others.append((values, decorator))
    function = _make(m, node, kind, tuple(library))
    completed = _completed(m, [values for values, _ in others], function)
    if completed is not None:
        return singleton(completed)
    result: Values = singleton(function)
    if any(name not in MODELS.decorators and not is_harmless(name) for name in library):
        m.handed_over[function] = None
    for name in library:
        change = MODELS.decorators.get(name)
        result = change(library_call(m, name, Arguments((result,)), node, None)) if change is not None else result
    for values, decorator in others:
        # An unknown decorator is taken to keep the function: most only log or time it.
        if not values.are(Unknown):
            result = _decorated(m, values, result, decorator)
    # `@staticmethod` above another decorator is about what that one has made.
    return result.map(lambda each: _of_kind(kind, each)) if inner == len(others) > 0 else result


def _of_kind(kind: str, made: Value) -> Value:
    return replace(made, kind=kind) if isinstance(made, Function) and made.kind == "function" else made


def _completed(m: Evaluator, decorators: list[Values], function: Function) -> Function | None:
    """`@model.setter`, `@model.deleter`: the property that is there already, with another function of its own."""
    for decorator in decorators:
        match decorator.single:
            case Method(Function() as getter, "setter") if getter.kind in PROPERTIES:
                m.set_entry(PROCESS, ProcessState.set_by_property, getter.label, singleton(function))
                return replace(getter, identity=(getter.identity, function.identity), setter=function)
            case Method(Function() as getter, "deleter") if getter.kind in PROPERTIES:
                return getter
    return None


def _decorated(m: Evaluator, decorator: Values, function: Values, node: ast.expr) -> Values:
    only = decorator.single
    registrar = m.decorated.get(only.node) if isinstance(only, Function) else None
    # A registry of a thousand models tells nothing more after the first ones.
    if registrar is not None and registrar.kept >= MAX_DECORATED:
        return function
    result = m.call(decorator, Arguments((function,)), node)
    if isinstance(only, Function):
        if registrar is None:
            registrar = m.decorated[only.node] = _registrar(m, decorator, node)
        registrar.kept = registrar.kept + 1 if result == function else 0
        if registrar.kept == MAX_DECORATED:
            # Imported late: hardly any program registers so much.
            from gpudoctor.lint.interp.registries import register_another

            register_another(m, registrar, node)
    return result


def _registrar(m: Evaluator, decorator: Values, node: ast.expr) -> Registrar:
    # `@register("resnet50")`: what registers another one is made with another name.
    if not isinstance(node, ast.Call):
        return Registrar(decorator)
    return Registrar(m.evaluate(node.func), len(node.args), tuple([each.arg for each in node.keywords if each.arg]))


def _library_name(values: Values) -> str:
    """The dotted name of a library decorator, called or not."""
    only = values.single
    if isinstance(only, (Library, ContextManager)):
        return only.name
    return only.escaped_from if only is not None else ""


def _make(
    m: Evaluator, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, kind: str, library: tuple[str, ...]
) -> Function:
    place = m.place(node)
    defaults = tuple(m.evaluate(default) for default in node.args.defaults)
    keyword = tuple(
        (arg.arg, m.evaluate(default))
        for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    )
    frame = m.frame
    # A method does not see the names of its class body.
    scopes = frame.scopes[1:] if frame.name == "<class>" else frame.scopes
    return Function(
        identity=m.allocation_site(place),
        place=place,
        label=getattr(node, "name", "lambda"),
        node=node,
        scopes=scopes,
        file=frame.file,
        defaults=defaults,
        keyword_defaults=keyword,
        kind=kind,
        owner=frame.defines,
        decorators=library,
    )


def define_lambda(m: Evaluator, node: ast.Lambda) -> Values:
    """The value of a lambda."""
    return singleton(_make(m, node, "function", ()))


def define_class(m: Evaluator, node: ast.ClassDef) -> Values:
    """The value of a class: its body is executed in a scope of its own."""
    bases: list[Value] = []
    complete = True
    for base in node.bases:
        value = m.evaluate(base).single
        # `class Images(Dataset[Tensor])`: what it is a data set of is for readers.
        if isinstance(value, Unknown) and isinstance(base, ast.Subscript) and not isinstance(base.slice, ast.Constant):
            value = m.evaluate(base.value).single
        if isinstance(value, (Class, Library)):
            bases.append(value)
        else:
            complete = False
    place = m.place(node)
    scope = ("class", m.allocation_site(place))
    decorators = [(m.evaluate(each), each) for each in node.decorator_list]
    keywords = {each.arg: m.evaluate(each.value) for each in node.keywords if each.arg}
    # `flax.struct.dataclass` gives a class more than fields.
    fields = [name for values, _ in decorators if (name := _library_name(values)).endswith(("dataclass", *MAKE_FIELDS))]
    complete = complete and all(name.startswith("dataclasses.") for name in fields)
    cls = Class(
        identity=scope,
        place=place,
        label=node.name,
        node=node,
        scope=scope,
        bases=tuple(bases),
        library_bases=frozenset(_library_bases(bases)),
        is_dataclass=bool(fields),
        complete=complete and all(not isinstance(base, Class) or base.complete for base in bases),
        metaclass=metaclass_of(keywords.pop("metaclass", None), bases),
    )
    scopes = (scope, *m.frame.scopes)
    with m.in_frame(Frame(scope, scopes, m.frame.file, "<class>", base_depth=m.store.depth, defines=cls)):
        m.execute(node.body)
    tell_those_above(m, cls, keywords, node)
    result: Values = singleton(cls)
    for values, decorator in reversed(decorators):
        change = MODELS.decorators.get(_library_name(values))
        if change is not None:
            result = change(library_call(m, _library_name(values), Arguments((result,)), node, None))
        elif values.all(lambda value: value.is_handed_over):
            made = m.call(values, Arguments((result,)), decorator)
            # A registry that could not be followed still hands the class on.
            result = made if made.has(Class, Function) else result
    return result


def _library_bases(bases: list[Value]) -> set[str]:
    names: set[str] = set()
    for base in bases:
        if isinstance(base, Library):
            # Every class has that one, written or not.
            names |= {base.name} - {"builtins.object"}
        elif isinstance(base, Class):
            names |= base.library_bases
    return names
