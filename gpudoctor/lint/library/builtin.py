"""Built-in functions: numbers, text, iteration, files and ends."""

from __future__ import annotations

import re

from gpudoctor.lint.domain.abstract_state import SettingState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.constant_folding import as_text, calculated, converted, formatted, joined, of_text, split
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, Range, TupleOf, items_held
from gpudoctor.lint.domain.data import Dataset, Loader, LoaderIterator, Sampler
from gpudoctor.lint.domain.function import Library
from gpudoctor.lint.domain.optim import Parameters
from gpudoctor.lint.domain.rank import Rank, Size
from gpudoctor.lint.domain.symbols import Attribute, CallResult, Length, MethodResult, OpenFile
from gpudoctor.lint.domain.tensor import Tensor, tensors_in
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    Anonymous,
    Composed,
    Const,
    Text,
    Truth,
    Unknown,
    Value,
    Values,
    constant_of,
    divergence_of,
    ends_of,
    shards_of,
    text_of,
)
from gpudoctor.lint.events.collective import LeaveLoop
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.files import ReadFile, Save, as_path
from gpudoctor.lint.events.host_waits import HostSync
from gpudoctor.lint.events.process import RankTextUsed
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.contents import as_written_by_itself, begin_iteration, is_grown, known_items, new_list
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, flatten, singleton
from gpudoctor.lint.library.checkpoint_files import note_written, report_written
from gpudoctor.lint.library.tensors import agreed, combined, is_reduced, note_printed, report
from gpudoctor.record import replace

BUILTINS = Library("builtins")
FIELD = r"\{(\w+(?:\.\w+)+)"
"""A field of a format that asks for an attribute."""


def unknown(call: Call, why: str, values: list[Value] | None = None, of: tuple[Values, ...] | None = None) -> Values:
    """An unknown result that depends on what the arguments do, or what was found `of` them."""
    given = call.all_values() if values is None else values
    # Computed from settings only: the same on every rank, so a test of it splits no ranks.
    config = bool(given) and all(isinstance(value, (Const, Size)) or value.config for value in given)
    own = [value for value in given if not (isinstance(value, Tensor) and is_reduced(call.do, value))]
    term = CallResult(call.name, call.args if of is None else of)
    return singleton(Unknown(term, why, call.label, divergence_of(own), config, shards_of(own)))


@MODELS.callable("builtins.int", "builtins.float", "builtins.bool")
def _number(call: Call) -> Values:
    given = call.arg(0, "x")
    if given is None:
        return singleton(converted(call.name.rpartition(".")[2], Const(0)) or Const(0))

    def convert(value: Value) -> Value:
        match value:
            # `int(os.environ["RANK"])` is where the text of a rank becomes a number.
            case Rank(kind, source):
                return Rank(kind, source, place=value.place)
            case Size(count):
                return Size(count, place=value.place)
            case Const():
                found = converted(call.name.rpartition(".")[2], value)
                if found is not None:
                    return found
                # `int(os.environ.get("PMI_RANK"))` fails here, and is a rank under the launcher that is meant.
                dependence = Divergence.UNREAD if value == NONE else Divergence.NONE
                return Unknown(CallResult(call.name, value), "a number", dependence=dependence)
            case Unknown(kind=""):
                return replace(value, kind=call.name.removeprefix("builtins."))
            case Truth() | Unknown():
                return value
            # `float(loss)` waits for the GPU as `loss.item()` does.
            case Tensor(on_cpu=False):
                call.emit(HostSync, call=call.name, subject=value)
        return unknown(call, "a number", [value]).bindings[0].value

    return given.map(convert)


@MODELS.callable("builtins.str", "builtins.repr", "builtins.format")
def _text(call: Call) -> Values:
    given = call.arg(0, "object")
    if given is None:
        return singleton(Const(""))
    given = as_written_by_itself(call.do, given, call.node)
    # `str(loss)` copies the tensor to the host.
    note_printed(call.do, given, call.place)
    how = call.name.rpartition(".")[2]
    conversion = "r" if how == "repr" else ""
    spec = "" if how != "format" or len(call.args) == 1 else text_of(call.args[1].single)
    return given.map(lambda each: _written(each, conversion, spec))


@MODELS.callable("json.dumps", "pprint.pformat", "yaml.safe_dump")
def _text_of_all(call: Call) -> Values:
    """The text of a container, in which each of its values stands."""
    held = flatten(call.do, list(call.args[0])) if call.args else []
    for value in held:
        note_printed(call.do, singleton(value), call.place)
    return singleton(Text(tuple(held))) if held else NOT_ANSWERED


def _written(value: Value, conversion: str, spec: str | None) -> Value:
    if isinstance(value, Const) and not conversion and spec == "":
        return as_text(value) or Text((value,))
    parts = formatted(value, conversion, spec)
    if isinstance(value, Text):
        return value
    if len(parts) == 1 and parts[0].is_constant:
        return parts[0]
    # `str(torch.device("cuda", 0))` has two.
    texts = [str(part.value) for part in parts if isinstance(part, Const)]
    return Const("".join(texts)) if len(texts) == len(parts) else Text(parts)


@MODELS.callable("builtins.print")
def _print(call: Call) -> Values:
    texts = [as_written_by_itself(call.do, values, call.node) for values in call.args]
    for values in texts:
        note_printed(call.do, values, call.place)
    for file in call.keywords.get("file", ()):
        note_written(call, file, texts)
    # A mean over one rank's share that is shown as if it were the whole.
    # `builtins.print = print` of a function that is mute on all ranks but one, as torchvision's references do.
    replaced = call.do.own_attribute(BUILTINS, "print") is not None
    report(call.do, "log" if replaced else "print", texts, call.place)
    return singleton(NONE)


@MODELS.callable("builtins.range", "tqdm.trange", "tqdm.auto.trange")
def _range(call: Call) -> Values:
    for values in call.args:
        for value in values:
            # Environment variables are text: `range(os.environ["WORLD_SIZE"])` is a TypeError.
            if value.as_text:
                call.emit(RankTextUsed, rank=value, use="given to `range`")
    # A range of ranges is a TypeError, and `x = range(x, x)` doubles with each line.
    if any(isinstance(value, Composed) for values in call.args for value in values):
        return unknown(call, "a range of what is not a number")
    if len(call.args) == 3 and (counted := _few_numbers(call)):
        return singleton(TupleOf(tuple(singleton(Const(each)) for each in counted)))
    if len(call.args) == 1:
        return singleton(Range(singleton(Const(0)), call.args[0]))
    if len(call.args) >= 2:
        return singleton(Range(call.args[0], call.args[1]))
    return unknown(call, "a range")


def _few_numbers(call: Call) -> range:
    """`range(len(parts), 0, -1)`: a few numbers that are known."""
    given = [constant_of(each.single) for each in call.args]
    start, stop, step = (each if isinstance(each, int) else None for each in given)
    if start is None or stop is None or not step:
        return range(0)
    counted = range(start, stop, step)
    return counted if len(counted) <= MAX_MAPPED else range(0)


@MODELS.callable("builtins.enumerate", "builtins.zip", "itertools.chain", "itertools.islice")
def _iterating(call: Call) -> Values:
    kind = call.name.rpartition(".")[2]
    # The second argument of `enumerate` and `islice` is a number, not a source of items.
    several = kind in ("zip", "chain")
    items = (*call.args, *call.rest) if several else call.args[:1]
    if kind == "zip" and not call.args and (columns := _columns(call)) is not None:
        return columns
    # `x = zip(x, x)` doubles with each line.
    if _is_nested(items, 4):
        return unknown(call, "iterators of iterators")
    return singleton(Enumerated(kind, items, several and call.open_ended))


def _columns(call: Call) -> Values | None:
    """`images, labels = zip(*batch)`, of however many rows that are alike: the columns; None where they are not."""
    rows = [value for values in call.rest for value in values]
    alike = [row for row in rows if isinstance(row, TupleOf) and len(row.items) == len(getattr(rows[0], "items", ()))]
    if not rows or len(alike) < len(rows):
        return None
    columns = (union(column) for column in zip(*(row.items for row in alike), strict=True))
    return singleton(TupleOf(tuple(new_list(call.do, [column], call.node, exact=False) for column in columns)))


def _is_nested(items: tuple[Values, ...], levels: int) -> bool:
    """Iterators go over iterators, more than so many levels deep."""
    inner = [value for values in items for value in values if isinstance(value, Enumerated)]
    return any(levels == 0 or _is_nested(value.items, levels - 1) for value in inner)


# Progress bars hand on the items as they are: the loader behind one is still iterated.
@MODELS.callable("itertools.chain.from_iterable")
def _chain_of(call: Call) -> Values:
    sources = call.args[0].single if call.args else None
    items = known_items(call.do, sources)
    found = (call.do.items_of(call.args[0], call.node),) if items is None and call.args else items or ()
    return NOT_ANSWERED if _is_nested(found, 4) else singleton(Enumerated("chain", found, items is None))


@MODELS.callable("tqdm.*", "rich.progress.track", "itertools.cycle")
def _progress(call: Call) -> Values:
    # tqdm says `iterable`, rich says `sequence`.
    given = call.arg(0, "iterable") or call.arg(0, "sequence")
    if given is None:
        of_its_own = Anonymous("tqdm", call.allocation_site())
        bar: Value = Unknown(of_its_own, "a progress bar", call.label, escaped_from="tqdm.tqdm")
    elif _is_nested((given,), 4):
        return unknown(call, "iterators of iterators")
    else:
        bar = Enumerated("tqdm", (given,))
    hidden = call.keywords.get("disable")
    if hidden is not None and any(value.divergence & Divergence.RANK for value in hidden):
        # A bar that is switched off counts nothing.
        counted = Unknown(Attribute(bar, "n"), "what a progress bar has counted", f"{call.label}.n", Divergence.RANK)
        call.do.set_own_attribute(bar, "n", singleton(counted))
    return singleton(bar)


@MODELS.method(Enumerated)
def _bar_method(call: Call[Enumerated]) -> Values:
    """`pbar.set_postfix(loss=…)` and its kind."""
    report(call.do, "bar", (*call.args, *call.keywords.values()), call.place)
    for values in (*call.args, *call.keywords.values()):
        note_printed(call.do, values, call.place)
    return singleton(call.receiver) if call.name == "__enter__" else singleton(NONE)


@MODELS.callable("builtins.iter")
def _iter(call: Call) -> Values:
    given = call.arg(0, "object")
    if given is None:
        return unknown(call, "an iterator")

    def start(value: Value) -> Value:
        # Each `iter(loader)` starts an epoch: infinite loaders are written so, around StopIteration.
        if isinstance(value, Loader):
            call.emit(Iterate, loader=value)
            return LoaderIterator(call.allocation_site(), call.place, call.label, value)
        # Of an iterator nobody knows how much is left.
        return Enumerated("iter", (singleton(value),)) if isinstance(value, (ListOf, TupleOf, DictOf)) else value

    return begin_iteration(call.do, given.map(start), call.node)


@MODELS.callable("builtins.next")
def _next(call: Call) -> Values:
    given, default = call.arg(0, "iterator"), call.arg(1, "default")
    found = call.do.items_of(given, call.node) if given is not None else unknown(call, "an item")
    return found if default is None else union([found, default])


@MODELS.callable("builtins.len")
def _len(call: Call) -> Values:
    only = call.first
    items = known_items(call.do, only)
    if items is not None and not is_grown(call.do, only):
        return singleton(Const(len(items)))
    if isinstance(only, Const) and isinstance(only.value, (str, bytes)):
        return singleton(Const(len(only.value)))
    # `len(loader)` is the same on all ranks: DistributedSampler pads the shares to one length.
    return call.unknown(Length(only), "a length", config=isinstance(only, (Loader, Dataset, Sampler)))


MAX_MAPPED = 8
"""As many items that are known one by one are mapped one by one."""


@MODELS.callable("builtins.filter", "builtins.map")
def _filter(call: Call) -> Values:
    if len(call.args) < 2:
        return unknown(call, "an iterator")
    only = call.args[1].single
    # `filter(lambda p: p.requires_grad, model.parameters())` is how fine-tuning builds optimizers.
    if call.name.endswith("filter"):
        return (
            call.args[1]
            if isinstance(only, (Parameters, ListOf, TupleOf))
            else singleton(Enumerated("filter", call.args[1:2]))
        )
    known = known_items(call.do, only)
    # One by one, since `map(copy, layers)` makes separate objects.
    if known is not None and len(call.args) == 2 and len(known) <= MAX_MAPPED:
        return new_list(
            call.do, [call.do.call(call.args[0], Arguments((item,)), call.node) for item in known], call.node
        )
    item = call.do.items_of(call.args[1], call.node)
    return new_list(call.do, [call.do.call(call.args[0], Arguments((item,)), call.node)], call.node, exact=False)


@MODELS.callable("functools.reduce")
def _reduce(call: Call) -> Values:
    """`reduce(operator.add, losses)`: what the function makes of one item after the other."""
    only = call.first
    # `reduce(getitem, path, config)[name] = value` writes into what it was given.
    if len(call.args) < 2 or (isinstance(only, Library) and only.name not in ARITHMETIC):
        return NOT_ANSWERED
    known = known_items(call.do, call.args[1].single)
    items = list(known) if known is not None and len(known) <= MAX_MAPPED else []
    if not items:
        # Of more, two are as good as all.
        items = [call.do.items_of(call.args[1], call.node)] * 2
    result = call.arg(2, "initial") or items.pop(0)
    for item in items:
        result = call.do.call(call.args[0], Arguments((result, item)), call.node)
    return result


ARITHMETIC = tuple(f"operator.{name}" for name in ("add", "iadd", "mul", "sub", "truediv"))


@MODELS.callable(
    "builtins.sum", "builtins.max", "builtins.min", "builtins.abs", "builtins.round", "builtins.pow", *ARITHMETIC
)
def _arithmetic(call: Call) -> Values:
    if call.name in _EXTREMES and len(call.args) == 1:
        items = call.do.items_of(call.args[0], call.node)
        # `max(names, key=os.path.getmtime)`: one of the items, whatever they are compared by.
        if items.bindings and ("key" in call.keywords or items.are(Text)):
            return items
    given = flatten(call.do, call.all_values())
    for value in list(given):
        # `sum(losses)` has the graph of each of the losses.
        if isinstance(value, (Enumerated, ListOf)):
            given += list(call.do.items_of(singleton(value), call.node))
    if any(tensors_in(given)):
        return singleton(combined(call.do, given, call.place, call.label, call.sure_values()))
    if call.name in _OF_CONSTANTS and (made := _calculated(call)) is not None:
        return singleton(made)
    # `max(1, world_size)`: guards against 0 change nothing where several processes run.
    if len(given) == 2 and call.name.endswith("max") and isinstance(given[1], Size) and given[0].is_constant:
        return singleton(given[1])
    return unknown(call, "a number", given)


_EXTREMES = ("builtins.max", "builtins.min")
_OF_CONSTANTS = tuple(f"builtins.{name}" for name in ("abs", "round", "min", "max", "sum"))


def _calculated(call: Call) -> Const | None:
    """What it makes of numbers that are all known, or of the only list that it is given."""
    inside = known_items(call.do, call.first) if len(call.args) == 1 else None
    if call.keywords or call.rest or (inside is not None and is_grown(call.do, call.first)):
        return None
    known = [each.single for each in (call.args if inside is None else inside)]
    constants = [each for each in known if isinstance(each, Const) and not isinstance(each.value, str)]
    return calculated(call.name.rpartition(".")[2], constants) if len(constants) == len(known) else None


@MODELS.callable("builtins.any", "builtins.all")
def _any(call: Call) -> Values:
    """`if any(key in name for key in frozen)`: what it depends on is what the items do."""
    held = call.first
    if not isinstance(held, (ListOf, TupleOf)):
        return NOT_ANSWERED
    items = None if is_grown(call.do, held) else known_items(call.do, held)
    known = [each.single for each in items or ()]
    decides = call.name.endswith("any")
    if items is not None and any(isinstance(each, Const) and bool(each.value) is decides for each in known):
        return singleton(Const(decides))
    if items is not None and all(isinstance(each, Const) for each in known):
        return singleton(Const(not decides))
    # A test of one thing is that test.
    if len(known) == 1 and isinstance(known[0], Truth):
        return singleton(known[0])
    asked = (call.do.items_of(singleton(held), call.node),) if items is None else items
    return unknown(call, "whether they are true", [each for values in asked for each in values], asked)


@MODELS.callable("sys.exit", "builtins.exit", "builtins.quit", "os._exit", "click.Context.fail", "click.Context.exit")
def _exit(call: Call) -> Values:
    status = call.arg(0, "status")
    # The launcher ends the other ranks too where one fails; after a quiet end they go on and wait.
    failed = status is not None and not status.all(lambda value: value in (NONE, Const(0), FALSE))
    call.emit(LeaveLoop, how="abort" if failed else "exit", loop=None)
    call.do.terminate(failed, call.name.removeprefix("builtins."), call.place)
    return singleton(NONE)


@MODELS.callable("builtins.input")
def _input(call: Call) -> Values:
    """What multiprocessing starts has no terminal: it ends in an `EOFError`."""
    if call.do.launch.started_here:
        call.do.terminate(failed=True, by="input", at=call.place)
    return call.unknown(Anonymous("input", call.place), "what somebody types")


@MODELS.callable(
    "builtins.open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open", "fsspec.open", "smart_open.open",
    "iopath.common.file_io.PathManager.open", "iopath.common.file_io.g_pathmgr.open",
    "fvcore.common.file_io.PathManager.open", "blobfile.BlobFile",
)  # fmt: skip
def _open(call: Call) -> Values:
    return _opened(call, call.arg(0, "file"), call.spelled(0, "file"), call.constant(1, "mode"))


@MODELS.method(Text, "open")
def _open_path(call: Call[Text]) -> Values:
    """`path.open("w")`."""
    return _opened(call, singleton(call.receiver), call.spelled_receiver, call.constant(0, "mode"))


MODELS.method(Text, "read_bytes", "read_text")(
    lambda call: _opened(call, singleton(call.receiver), call.spelled_receiver, "r")
)


@MODELS.method(Text, "write_bytes", "write_text")
def _write_at_once(call: Call[Text]) -> Values:
    path = singleton(call.receiver)
    call.emit(Save, call=call.name, path=path, spelled=call.spelled_receiver, checkpoint=False, whole=True)
    report_written(call, path, call.args)
    return call.unknown(MethodResult(call.receiver, call.name), "a number of bytes")


def _opened(call: Call, path: Values | None, spelled: str, mode: object) -> Values:
    # Every rank opens the same path: files written by several ranks are torn.
    if isinstance(mode, str) and mode[:1] in ("w", "a", "x"):
        named = path is call.arg(0, "file")
        call.emit(Save, call="open", path=as_path(path), spelled=spelled, checkpoint=False, path_first=named)
    else:
        call.emit(ReadFile, call="open", path=as_path(path), spelled=spelled)
    # What is read from a file that each rank has for itself is its own.
    divergence = divergence_of(path or ())
    opened = OpenFile(call.allocation_site(), path, mode, spelled)
    return call.unknown(opened, "an open file", divergence, escaped_from="io.open")


@MODELS.method((Const, Text), "format")
def _format(call: Call[Const | Text]) -> Values:
    given = _fields(call)
    for each in given:
        note_printed(call.do, each, call.place)
    if (text := text_of(call.receiver)) is not None and (parts := _filled_in(call, text)) is not None:
        whole = joined([each for each in parts if isinstance(each, Const)])
        known = all(each.is_constant for each in parts)
        return singleton(whole if known and whole is not None else Text(tuple(parts)))
    values = [value for each in given for value in agreed(call.do, each)]
    receiver = call.receiver.parts if isinstance(call.receiver, Text) else (call.receiver,)
    return singleton(Text((*receiver, *values)))


def _filled_in(call: Call, text: str) -> list[Value] | None:
    """The parts of the text with what comes into its fields; None where that is not known, or asked of an object."""
    # Imported late: at each start it would compile patterns of its own.
    from string import Formatter

    parts: list[Value] = []
    try:
        pieces = list(Formatter().parse(text))
    except ValueError:
        return None
    unnamed = iter(call.args)
    for literal, name, spec, conversion in pieces:
        parts += [Const(literal)] if literal else []
        if name is None:
            continue
        found = next(unnamed, None) if not name else call.keywords.get(name)
        if found is None or "{" in (spec or ""):
            return None
        for value in agreed(call.do, found):
            parts += formatted(value, conversion or "", spec or "")
    return parts


def _fields(call: Call) -> list[Values]:
    """What the text shows: of `"{meter.avg}".format(meter=meter)` the attribute, else the arguments as they are."""
    receiver = call.receiver
    text = text_of(receiver) or ""
    shown: dict[str, list[Values]] = {}
    for name, _, path in (field.partition(".") for field in re.findall(FIELD, text)):
        values = call.keywords.get(name)
        for attribute in path.split(".") if values is not None else ():
            here = values.restrict(call.do.path).bindings if values is not None else ()
            found = [call.do.attribute(each.value, attribute, call.node).guarded_by(each.condition) for each in here]
            values = union(found) if found else None
        if values is not None:
            shown.setdefault(name, []).append(values)
    rest = [values for name, values in call.keywords.items() if name not in shown]
    return [*call.args, *rest, *(each for values in shown.values() for each in values)]


@MODELS.method(Const, "join")
def _join(call: Call[Const]) -> Values:
    only = call.first
    items = known_items(call.do, only)
    known = [text for item in items or () if (text := text_of(item.single)) is not None]
    if items is not None and len(known) == len(items) and not is_grown(call.do, only):
        between = [Const(text) for each in known for text in (call.receiver.value, each)][1:]
        made = joined(between)
        return singleton(made) if made is not None else unknown(call, "a long text")
    # `".".join(["models", name])` names a module.
    if items and all(item.single is not None for item in items):
        parts = [part for item in items for part in (call.receiver, item.single) if part is not None]
        return singleton(Text(tuple(parts[1:])))
    return singleton(Text(tuple(flatten(call.do, call.all_values()))))


_QUESTIONS = {"exists": "os.path.exists", "is_file": "os.path.isfile", "is_dir": "os.path.isdir"}


@MODELS.method(Text, "rsplit", "rpartition", "split", "partition")
def _cut(call: Call[Text]) -> Values:
    """`f"models.{name}.Net".rsplit(".", 1)`, where the end at which it is cut is known."""
    start, middle, end = ends_of(call.receiver)
    between, whole, backwards = call.text(0, "sep"), "partition" in call.name, call.name.startswith("r")
    text = end if backwards else start
    limit = given.single if (given := call.arg(1, "maxsplit")) is not None else None
    if not between or between not in text or not (whole or limit == Const(1)):
        return _text_method(call)
    before, _, after = text.rpartition(between) if backwards else text.partition(between)
    if backwards:
        cut: list[Value] = [Text((Const(start), *middle, Const(before))), Const(after)]
    else:
        cut = [Const(before), Text((Const(after), *middle, Const(end)))]
    if whole:
        return singleton(TupleOf(tuple(map(singleton, (cut[0], Const(between), cut[1])))))
    return new_list(call.do, list(map(singleton, cut)), call.node)


@MODELS.method((Const, Text))
def _text_method(call: Call[Const | Text]) -> Values:
    if call.name in _QUESTIONS:
        return _whether_there(call, call.name, singleton(call.receiver))
    if (text := text_of(call.receiver)) is not None:
        return _parted(call, text) or singleton(_folded(call, text))
    # `Path(…).exists()` is the question that `os.path.exists` asks.
    # These answer with a bool or a number, which must not be taken for a path.
    if call.name.startswith(("is", "starts", "ends", "find", "rfind", "count", "index", "rindex")):
        return unknown(call, "an answer about a text", [call.receiver])
    return singleton(Text((call.receiver,)))


@MODELS.callable(*(f"pathlib.Path.{name}" for name in _QUESTIONS))
def _asked_of_path(call: Call) -> Values:
    """`Path.exists(path)`, as `path.exists()`."""
    path = call.arg(0, "self")
    return _whether_there(call, call.name.rpartition(".")[2], path) if path is not None else NOT_ANSWERED


@MODELS.method(Unknown, *_QUESTIONS)
def _setting_method(call: Call[Unknown]) -> Values:
    """A path that the user chooses: whatever else may be asked so is no setting."""
    return _whether_there(call, call.name, singleton(call.receiver)) if call.receiver.config else NOT_ANSWERED


def _whether_there(call: Call, question: str, path: Values) -> Values:
    return call.unknown(CallResult(_QUESTIONS[question], (path,)), "whether a file is there")


@MODELS.method(Unknown, "lower", "upper", "strip", "title", "startswith", "endswith", "replace")
def _of_each_choice(call: Call[Unknown]) -> Values:
    """Of an option with known choices: what they are then."""
    choices = [item.single for item in items_held(call.do.state(call.receiver, SettingState.can_be))]
    texts = [text for each in choices if (text := text_of(each)) is not None]
    among = [found for text in texts if isinstance(found := _folded(call, text), Const)]
    if not choices or len(among) < len(choices):
        return NOT_ANSWERED
    if len(set(among)) == 1:
        return singleton(among[0])
    if any(text_of(each) is None for each in among):
        return NOT_ANSWERED
    term, label = MethodResult(call.receiver, call.name, call.args), f"{call.label}()"
    return singleton(Unknown(term, "chosen at the start", label, config=True, kind="str", among=tuple(among)))


def _parted(call: Call, text: str) -> Values | None:
    """`"loss,accuracy".split(",")`, `"models.nets:Net".partition(":")`."""
    given = [values.single for values in call.args]
    if call.name in ("partition", "rpartition") and (between := text_of(given[0] if given else None)):
        cut = text.partition(between) if call.name == "partition" else text.rpartition(between)
        return singleton(TupleOf(tuple([singleton(Const(part)) for part in cut])))
    parts = split(text, given) if call.name == "split" and not call.keywords else None
    return new_list(call.do, [singleton(Const(part)) for part in parts], call.node) if parts is not None else None


def _folded(call: Call, text: str) -> Value:
    args = [values.single for values in call.args]
    plain = [arg for arg in args if isinstance(arg, Const)]
    # `args.backend.lower() == "nccl"` and `device.startswith("cuda")` decide branches.
    found = of_text(text, call.name, plain) if len(plain) == len(args) else None
    if found is not None:
        return found
    # `"logs/RANK".replace("RANK", str(rank))` is another text on each rank.
    divergence = divergence_of(flatten(call.do, call.all_values()))
    return Unknown(MethodResult(Const(text), call.name, call.args), "text", call.label, divergence)
