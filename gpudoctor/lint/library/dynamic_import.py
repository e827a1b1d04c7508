"""Modules, classes and functions that a setting names: `import_module(f"models.{name}")`, `getattr(models, name)`."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Sequence
from functools import partial
from itertools import islice

from gpudoctor.lint.domain.abstract_state import PROCESS, ProcessState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.choosing import choice_name, one_by
from gpudoctor.lint.domain.constant_folding import compared
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Instance, Library, ProjectModule
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import (
    Attribute,
    CallResult,
    Compares,
    FileSetting,
    Item,
    MethodResult,
    Setting,
    keys_of,
)
from gpudoctor.lint.domain.value import (
    NONE,
    TRUE,
    Anonymous,
    Const,
    Term,
    Text,
    Unknown,
    Value,
    Values,
    ends_of,
    single_of,
    text_of,
)
from gpudoctor.lint.interface.contents import ancestry, default_of, known_items, possible_pairs
from gpudoctor.lint.interface.hooks import HOOKS, answers
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, singleton
from gpudoctor.lint.library.library_names import IMPORTS, canonical
from gpudoctor.lint.library.paths import on_disk

MAX_MODULES = 4
"""Of the modules or classes that a name may mean, so many are followed: they are made after one pattern."""
MAX_SOUGHT = 3
"""The same of those that setting files name: each may go with each of another setting."""
MAX_NAME = 200
"""Characters of what is evaluated as a name."""
_SEARCHES = frozenset(
    ("os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob", "pkgutil.iter_modules", "pkgutil.walk_packages")
)
_ARGUMENT = 4
"""So many steps an argument lies below the call that it was given to."""
_STEPS = 8
"""So many calls may lie between the name of a module and the option that it is made of."""
MANY_IN_PACKAGE = 40
"""Of a package with more modules one is followed: it stands for many others."""


@MODELS.callable(*IMPORTS)
def _import_module(call: Call) -> Values:
    before = call.text(1, "package") or ""
    # `"models.model" if "." not in name else name.rpartition(".")[0]`: what is known of them is imported.
    given = call.args[0].restrict(call.do.path) if call.args else singleton(NONE)
    return call.do.for_each_value(given, lambda name: _imported(call, name, before), call.node)


def _imported(call: Call, name: Value, before: str) -> Values:
    if (text := text_of(name)) is not None:
        return singleton(call.do.modules.import_named(f"{before}{text}" if text.startswith(".") else text, call.node))
    found = _modules(call, name, before) or _modules_of_packages(call, name) or _modules_in_settings(call, name)
    modules = [call.do.modules.import_named(each, call.node) for each in found]
    # Nobody chooses it: the program imports what it has found in a folder, one after the other.
    parts = list(provenance_of(name, 2 * _STEPS))
    searches = [each for each in parts if _is_search(each)]
    if searches and not any(isinstance(each, Unknown) and each.config for each in parts):
        call.do.modules.import_found(_folder_of(searches))
    if modules:
        return one_by(call.place, modules)
    if (given := _given_at_start(call, name)) is not None:
        return given
    why = "a module whose name is not known"
    call.do.record_imprecision(f"{why} is imported", call.place)
    call.do.set_flag(PROCESS, ProcessState.imports_unknown)
    return call.unknown(CallResult(call.name, call.args), why)


def _is_search(part: object) -> bool:
    """`os.listdir(folder)`, and one of `Path(folder).glob("*.py")`."""
    if isinstance(part, Anonymous):
        return part.kind == "item of" and isinstance(part.of, Text)
    return isinstance(part, CallResult) and part.function in _SEARCHES


def _folder_of(searches: list[object]) -> str | None:
    """`glob(os.path.join(folder, "*.py"))`: where is searched, as far as it is known."""
    paths = (part for each in searches for part in provenance_of(each, _ARGUMENT) if isinstance(part, Value))
    found = (on_disk(each) for each in paths)
    return next((each.partition("*")[0] for each in found if each is not None), None)


def _given_at_start(call: Call, name: Value) -> Values | None:
    """`import_module(args.config)`, or of a copy of the file under a name for the time being."""
    parts = list(provenance_of(name, _STEPS))
    copied = any(isinstance(each, CallResult) and str(each.function).startswith("tempfile.") for each in parts)
    chosen = any(isinstance(each, Unknown) and each.config for each in parts)
    # A plugin that a settings file names is another module than that file.
    in_file = any(isinstance(each, Setting) and ":" in each.name for each in parts)
    if not copied and (in_file or not chosen):
        return None
    # Imported late: few programs import a file that the user names.
    from gpudoctor.lint.library.written_settings import module_given

    option = name.term.name if isinstance(name.term, Setting) else ""
    if (settings := module_given(call, option)) is not None:
        return settings
    module = call.do.modules.usual_module(option)
    return singleton(call.do.modules.import_named(module, call.node)) if module else None


@MODELS.callable("importlib.util.module_from_spec", "runpy.run_path")
def _made_of_file(call: Call) -> Values:
    """`module_from_spec(spec_from_file_location("config", args.config))`: `loader.exec_module` executes it."""
    given = call.args[0].single if call.args else None
    return (_given_at_start(call, given) if given is not None else None) or NOT_ANSWERED


@answers(HOOKS.parts_of_results, *IMPORTS)
def _part_of_module(do: LibraryContext, module: Unknown, name: str, node: ast.AST) -> Values | None:
    """`import_module(args.config).Config`: a module of which nothing is known but that it has this."""
    return _defined(do, module.term, name, node)


def _defined(do: LibraryContext, choice: Hashable, name: str, node: ast.AST) -> Values | None:
    """What the project defines under this name, in a module or a few."""
    # Every module has a `__dict__`.
    found = [] if name.startswith("__") else do.modules.import_defining(name, MAX_MODULES, node)
    modules = one_by(choice, found) if found else None
    return do.for_each_value(modules, lambda each: do.attribute(each, name, node), node) if modules else None


def is_module(value: Value) -> bool:
    """A module of the project, also one of which nothing is known but that it was imported."""
    term = value.term
    return isinstance(value, ProjectModule) or (isinstance(term, CallResult) and term.function in IMPORTS)


@MODELS.callable("monai.utils.optional_import", "monai.utils.module.optional_import")
def _optional_import(call: Call) -> Values:
    """`fire, has_fire = optional_import("fire")`: a module, or what it has under `name`, and whether it is there."""
    module, name = call.text(0, "module"), call.text(3, "name")
    if module is None:
        return NOT_ANSWERED
    found = call.do.modules.import_named(module, call.node)
    wanted = call.do.attribute(found, name, call.node) if name else singleton(found)
    return singleton(TupleOf((wanted, singleton(TRUE))))


@MODELS.callable(
    "transformers.utils._LazyModule",
    "transformers.utils.import_utils._LazyModule",
    "transformers.file_utils._LazyModule",
    "diffusers.utils._LazyModule",
    "diffusers.utils.import_utils._LazyModule",
)
def _lazy_module(call: Call) -> Values:
    """`sys.modules[__name__] = _LazyModule(__name__, path, {"model": ["Net"]})`: a package that loads its parts when
    they are asked for."""
    module, package, parts = call.do.modules.own_module(), call.text(0, "name"), single_of(call.arg(2, "structure"))
    if package is None or parts is None or not isinstance(module, ProjectModule):
        return NOT_ANSWERED
    lines = ["def __getattr__(name, *, import_module):"]
    for key, held in possible_pairs(call.do, parts):
        part = f"{package}.{text_of(single_of(key))}"
        names = [text_of(single_of(each)) for values in held for each in known_items(call.do, values) or ()]
        lines += [f"  if name == {name!r}: return import_module({part!r}).{name}" for name in names if name]
    imports = singleton(Library("importlib.import_module"))
    getter = call.do.modules.function_at("\n".join([*lines, "  return"]), call.node, import_module=imports)
    call.do.set_own_attribute(module.scope, "__getattr__", singleton(getter))
    return NOT_ANSWERED


def _modules(call: Call, name: Value, before: str) -> list[str]:
    """The modules that `f"package.{name}_model"` may mean, or the one that it means if nothing else is said; what
    begins with a dot lies in the package `before`."""
    start, middle, end = _pattern(name)
    start = f"{before}{start}" if start.startswith(".") else start
    package, _, prefix = start.rpartition(".")
    # `f"{package}.{folder}.{module}"`: which folders there are between is not known, either.
    deeper = isinstance(middle, Text) and any("." in (text_of(each) or "") for each in middle.parts)
    if not package or middle is None or deeper:
        return []
    names = [each for each in _all_below(call.do, package, end) if each.startswith(prefix) and each.endswith(end)]
    usual = text_of(default_of(call.do, middle))
    chosen = f"{prefix}{usual}{end}" if usual is not None else None
    if chosen in names:
        return [f"{package}.{chosen}"]
    # In `models`, what is called a model comes before its tools.
    word = package.rpartition(".")[2].removesuffix("s")
    names.sort(key=lambda each: word not in each)
    most = MAX_MODULES if len(names) <= MANY_IN_PACKAGE else 1
    if len(names) > most:
        read = f"{most} were read" if most > 1 else "one was read"
        call.do.record_imprecision(f"one of {len(names)} modules in {package} is imported, of which {read}", call.place)
    return [f"{package}.{each}" for each in names[:most]]


def _modules_of_packages(call: Call, name: Value) -> list[str]:
    """`f"{package}.{algorithm}"`, where the package is one of several: a module of each."""
    package, *rest = name.parts if isinstance(name, Text) else (name,)
    within = (_modules(call, Text((each, *rest)), "")[:1] for each in package.among[:MAX_MODULES])
    return [module for found in within for module in found]


def _all_below(do: LibraryContext, package: str, end: str) -> Sequence[str]:
    """The modules of a package, or with `f"app.{name}.train"` those of this name in each of its folders."""
    _, dot, module = end.partition(".")
    if not dot:
        return do.modules.modules_below(package)
    inside = (f"{each}.{module}" for each in do.modules.folders_below(package))
    return [each for each in inside if do.modules.has_module(f"{package}.{each}")]


def _modules_in_settings(call: Call, name: Value) -> list[str]:
    """`import_module(config["model"]["target"].rsplit(".", 1)[0])`, `import_module(config.model.type)`: what the
    setting files of the project name so, a module or what lies in one."""
    has = call.do.modules.has_module
    told = _told_in_settings(call.do, name) or _by_default(call.do, name)
    named = (each if has(each) else each.rpartition(".")[0] for each in told)
    own = [each for each in dict.fromkeys(named) if has(each)]
    # Each is a program of its own: of many one stands for the others.
    return own if len(own) <= MAX_MODULES else own[:1]


def _told_in_settings(do: LibraryContext, name: Value) -> Sequence[str]:
    """What setting files of the project name where this text stands. A `target` of which nothing else is known may be
    any of theirs, and only one that stands by itself is told."""
    # `".".join(name.split(".")[:-1])` is cut out of one text, too.
    name = name.in_text[0] if len(name.in_text) == 1 else name
    keys, section = keys_of(name), _section(name)
    if section and (told := do.modules.named_in_settings([*section, *keys])):
        return told
    return do.modules.named_in_settings(keys) if len(keys) != 1 else do.modules.named_by_itself(keys[0])


def _by_default(do: LibraryContext, value: Value) -> list[str]:
    """`import_module(name[: name.rfind(".")])`: the whole text that a part was cut out of, where no option is given."""
    while (of := _cut_from(value.term)) is not None:
        value = of
    texts = [text_of(default_of(do, part) or part) for part in value.in_text]
    return ["".join(filter(None, texts))] if texts and None not in texts else []


def _cut_from(part: Term | None) -> Value | None:
    match part:
        case Item(of) | MethodResult(of) | CallResult(Unknown(term=Attribute(of))):
            return of
    return None


def _section(value: Value) -> list[str]:
    """The setting that all of it is a part of, which may be a section of a file or the whole of it."""
    while isinstance(value.term, (Attribute, Item)) and isinstance(value.term.of, Value):
        value = value.term.of
    term = value.term
    return [term.name] if isinstance(term, Setting) else []


def named_in_files(call: Call) -> Values:
    """`instantiate(cfg.model, size=3)` calls what the setting files of the project have under `_target_` there."""
    given = call.arg(0, "config")
    keys = keys_of(given.single) if given is not None else []
    choices = all_named(call, call.do.modules.named_in_settings([*keys, "_target_"])) if keys else []
    if not choices or given is None:
        return NOT_ANSWERED
    own = {name: values for name, values in call.keywords.items() if not name.startswith("_")}
    # What else it is given stands in the file, and may be changed at the start.
    rest = tuple(map(singleton, given))
    made = Arguments(call.args[1:], own, rest)
    return call.do.for_each_value(
        one_by(call.place, choices), lambda each: call.do.call(singleton(each), made, call.node), call.node
    )


def all_named(call: Call, targets: Sequence[str]) -> list[Value]:
    found = [each for each in (named(call, target) for target in targets[:MANY_IN_PACKAGE]) if each is not None]
    return list(dict.fromkeys(found))[:MAX_MODULES]


@MODELS.callable(*(f"hydra.utils.get_{kind}" for kind in ("class", "method", "object")))
def _got_by_name(call: Call) -> Values:
    """`get_class(cfg._target_)(cfg)`"""
    given = call.arg(0, "path")
    text = text_of(given.single) if given is not None else None
    if text is not None:
        choices = all_named(call, [text])
    else:
        keys = keys_of(given.single) if given is not None else []
        modules = call.do.modules
        named = modules.named_by_itself(keys[0]) if len(keys) == 1 else []
        named = named or (modules.named_in_settings(keys) if keys else [])
        # Each is a program of its own: of many one stands for the others.
        choices = all_named(call, named if len(named) <= MAX_MODULES else named[:1])
    return one_by(call.place, choices) if choices else NOT_ANSWERED


def named(call: Call, target: str) -> Value | None:
    """The class or function of the project, or of a library, that has this dotted name."""
    module, _, name = target.rpartition(".")
    if not call.do.modules.has_module(module):
        root = target.partition(".")[0]
        return None if call.do.modules.has_module(root) else Library(canonical(target))
    origin = call.do.modules.import_named(module, call.node)
    return call.do.attribute(origin, name, call.node).single


def _pattern(name: Value) -> tuple[str, Value | None, str]:
    """What a text begins with, what of it is not known, and what it ends with."""
    start, middle, end = ends_of(name)
    return start, middle[0] if len(middle) == 1 else Text(middle) if middle else None, end


@MODELS.callable("builtins.eval")
def _evaluated(call: Call) -> Values:
    """`eval(args.model)`, `eval("models." + args.model + ".build")`: what has that name."""
    name, module = call.first, call.do.modules.own_module()
    start, middle, end = _pattern(name) if name is not None else ("", None, "")
    end, *below = end.split(".")
    if (text := text_of(name)) is not None:
        if len(call.args) == 1 and len(text) <= MAX_NAME:
            return call.do.modules.expression_at(text, call.node) or NOT_ANSWERED
        start, middle, end = text, None, ""
    *path, first = start.split(".")
    if len(start) > MAX_NAME or not all(part.isidentifier() for part in (*path, *below)):
        return NOT_ANSWERED
    only = _followed(call, singleton(module), path).single
    if only is None or (name is not None and name.divergence):
        return NOT_ANSWERED
    if middle is None and not end:
        return call.do.attribute(only, first, call.node) if first.isidentifier() else NOT_ANSWERED
    # `eval(args.channels)` is a list as well as a name.
    if not (start or end) and not (isinstance(middle, Unknown) and (middle.among or default_of(call.do, middle))):
        return NOT_ANSWERED
    rest = Text((Const(first), *((middle,) if middle is not None else ()), Const(end))) if first or end else middle
    if isinstance(only, ProjectModule):
        found = member_named_by(call.do, only, rest, call)
        return _followed(call, found, below) if found is not None else NOT_ANSWERED
    return singleton(Library(f"{only.name}.*")) if isinstance(only, Library) and not below else NOT_ANSWERED


def _followed(call: Call, owner: Values, path: Sequence[str]) -> Values:
    """`models`, and `.resnet.build` after it."""
    for part in path:
        owner = call.do.for_each_value(owner, partial(call.do.attribute, name=part, node=call.node), call.node)
    return owner


def member_named_by(do: LibraryContext, module: Value, name: Value | None, call: Call) -> Values | None:
    """`getattr(module, setting)`: what it is by default, else any class that the module defines."""
    usual = text_of(default_of(do, name))
    if isinstance(module, Unknown):
        return _part_of_module(do, module, usual, call.node) if usual is not None else None
    if usual is not None and _may_be(do, name, usual):
        found = do.own_attribute(module.scope, usual) if isinstance(module, ProjectModule) else None
        if found is None and isinstance(module, ProjectModule) and do.modules.has_module(f"{module.name}.{usual}"):
            # `core.__dict__[config["version"]]`: a module of the package.
            found = singleton(do.modules.import_named(f"{module.name}.{usual}", call.node))
        if found is not None:
            return found
    # `for module in modules: cls = getattr(module, settings["type"], None)` seeks it in one after the other.
    if isinstance(name, Unknown) and call.arg(2, "default") is not None and (sought := _sought(call, name, usual)):
        return sought
    among = {each.value for each in name.among} if name is not None else set()
    if offered := [each for each in do.modules.defined_in(module) if choice_name(each) in among]:
        return one_by(call.place, offered[:MAX_MODULES])
    start, _, end = _pattern(name) if name is not None else ("", None, "")
    named = [
        each
        for each in do.modules.defined_in(module)
        if choice_name(each).startswith(start)
        and choice_name(each).endswith(end)
        and _may_be(do, name, choice_name(each))
    ]
    # `getattr(import_module(module), cls)`, both cut out of one text that stands in a setting file.
    whole = (_told_in_settings(do, name) or _by_default(do, name)) if name is not None else ()
    told = {each.rpartition(".")[2] for each in whole}
    if exactly := [each for each in named if choice_name(each) in told]:
        return one_by(call.place, exactly[:MAX_MODULES])
    # `f"init_dist_{launcher}"` means functions of that kind; a bare setting means a class, or what makes its objects.
    makers = _makers(named) if not (start or end) and call.arg(2, "default") is None else []
    choices: list[Value] = makers or [each for each in named if start or end or isinstance(each, Class)]
    # With something to fall back on, another module may be the one that has it.
    other = call.arg(2, "default")
    choices += list(other or ())
    if len(choices) > MAX_MODULES and other is None:
        choices = _some_of(call, choices)
    return one_by(call.place, choices) if 0 < len(choices) <= MAX_MODULES else None


def _sought(call: Call, name: Unknown, usual: str | None) -> Values | None:
    """What the project defines under the names that its setting files give in the place of this one, the one by default
    first."""
    keys = name.term.name.rpartition(":")[2].split(".") if isinstance(name.term, FileSetting) else keys_of(name)
    others = call.do.modules.named_in_settings(keys, words=True) if len(keys) > 1 or usual else []
    told = dict.fromkeys([*([usual] if usual else []), *others])
    defined = (single_of(_defined(call.do, call.place, each, call.node)) for each in told)
    known = [*islice(filter(None, defined), MAX_SOUGHT)]
    return one_by((call.place, name), known) if known else None


def _may_be(do: LibraryContext, setting: Value | None, text: str) -> bool:
    """No test that leads here says that the setting is another one: `if "FSDP" in config.trainer`."""
    told = {**{literal.atom.key: literal.holds for literal in do.path.literals}, **do.launch.assumptions}
    return all(_answered(key, setting, Const(text)) in (None, holds) for key, holds in told.items())


def _answered(key: Hashable, setting: Value | None, told: Const) -> bool | None:
    """What a test of a setting comes to where it is this; None where it asks something else."""
    match key:
        case Compares("in", Const() as part, asked) if asked == setting:
            return compared(ast.In(), part, told)
        case Compares("==", asked, Const() as other) | Compares("==", Const() as other, asked) if asked == setting:
            return compared(ast.Eq(), told, other)
    return None


def _some_of(call: Call, choices: list[Value]) -> list[Value]:
    """The first and the last of the classes that are no base of others, and that it may be none of them."""
    bases = {base for each in choices if isinstance(each, Class) for base in each.bases}
    leaves = [each for each in choices if each not in bases]
    term = Anonymous("getattr", call.args)
    other = Unknown(term, "an attribute whose name is not known", call.do.text(call.node, 40))
    return [*dict.fromkeys((*leaves[:1], *leaves[-1:])), other]


def method_named_by(do: LibraryContext, owner: Instance, name: Value | None, call: Call) -> Values | None:
    """`getattr(self, args.mode)`: what it is by default, else one of the choices; `getattr(self, f"run_{task}")`: the
    methods of this kind, where they are few and no attribute is called so."""
    start, _, end = _pattern(name) if name is not None else ("", None, "")
    above = (each for cls in ancestry(owner.cls) for each in do.names_of(cls.scope))
    held = dict.fromkeys([*do.names_of(owner), *above])
    usual = text_of(default_of(do, name))
    if usual in held and _may_be(do, name, usual):
        return do.attribute(owner, usual, call.node)
    among = {each.value for each in name.among} if name is not None else set()
    fitting = [
        each for each in held if each in among or ((start or end) and each.startswith(start) and each.endswith(end))
    ]
    choices = [do.attribute(owner, each, call.node).single for each in fitting[: MAX_MODULES + 1]]
    methods = [each for each in choices if isinstance(each, BoundMethod)]
    return one_by(call.place, list(methods)) if 0 < len(methods) == len(choices) <= MAX_MODULES else None


def _makers(named: list[Value]) -> list[Value]:
    """Of the functions of a module that make objects of its classes, as `deit_small()`, the first and the last: these
    are made after one pattern, more than the modules of a package."""
    functions = [each for each in named if isinstance(each, Function) and not each.label.startswith("_")]
    made = {choice_name(each) for each in named if isinstance(each, Class)}
    # `resnet50` leaves it to `_resnet`.
    made |= {choice_name(each) for each in named if isinstance(each, Function) and _makes(each, made)}
    found = [each for each in functions if _makes(each, made)]
    return [*found[:1], *found[1:][-1:]]


def _makes(function: Function, made: set[str]) -> bool:
    body = function.node.body if isinstance(function.node.body, list) else []
    given = [each.value for each in body if isinstance(each, ast.Return)]
    names = {each.id for each in given if isinstance(each, ast.Name)}
    given += [each.value for each in body if isinstance(each, ast.Assign) and _is_one_of(each.targets[0], names)]
    return any(isinstance(each, ast.Call) and _is_one_of(each.func, made) for each in given)


def _is_one_of(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names
