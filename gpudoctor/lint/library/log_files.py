"""Loggers of the standard library and of loguru: what they report, and which lines of which ranks get into files."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.abstract_state import NO, PROCESS, FileState, ProcessState
from gpudoctor.lint.domain.symbols import CallResult, OpenFile
from gpudoctor.lint.domain.value import NONE, Const, Unknown, Value, Values, single_of, term_of, text_of
from gpudoctor.lint.events.files import Save, as_path
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.contents import known_items
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, singleton
from gpudoctor.lint.library.checkpoint_files import note_written
from gpudoctor.lint.library.tensors import note_printed, report

HANDLERS = (
    "logging.FileHandler", "logging.handlers.RotatingFileHandler", "logging.handlers.TimedRotatingFileHandler",
    "logging.handlers.WatchedFileHandler",
)  # fmt: skip
LINES = frozenset({"info", "debug", "warning", "warn", "error", "critical", "log", "exception"})
GET = "logging.getLogger"
LOGURU = "loguru.logger"
"""Its one logger, which hands nothing on to those of the standard library."""


@MODELS.callable(*HANDLERS)
def _handler(call: Call) -> Values:
    mode = call.constant(1, "mode") if call.name == "logging.FileHandler" else "a"
    return _opened(call, call.arg(0, "filename"), call.spelled(0, "filename"), mode)


@MODELS.callable("logging.basicConfig")
def _configured(call: Call) -> Values:
    path, handlers = call.keywords.get("filename"), call.keywords.get("handlers")
    if handlers is not None:
        call.do.set_own_attribute(Unknown(CallResult(GET, ())), "handlers", handlers)
    # `level=logging.INFO if rank == 0 else logging.WARNING`
    if any(_by_rank(each) for each in call.keywords.values()):
        return singleton(call.result("nothing"))
    files = [each for each in known_items(call.do, single_of(handlers)) or () if _is_file(each)]
    if path is not None:
        files.append(_opened(call, path, call.spelled(-1, "filename"), call.constant(-1, "filemode")))
    for file in files:
        call.do.set_entry(PROCESS, ProcessState.log_files, "", file)
    return singleton(call.result("nothing"))


def _opened(call: Call, path: Values | None, spelled: str, mode: object) -> Values:
    mode = mode if isinstance(mode, str) else "a"
    # A log that begins anew: each process that opens it writes over the lines of the others.
    anew = path is not None and mode == "w"
    call.emit(
        Save, call=call.name if anew else "open", path=as_path(path), spelled=spelled, checkpoint=False, whole=anew
    )
    opened = OpenFile(call.allocation_site(), path, mode, spelled)
    file = call.unknown(opened, "a log file", escaped_from="logging.FileHandler")
    call.do.set_own_attribute(file.single, "baseFilename", path or singleton(call.result("a path")))
    return file


@MODELS.callable(f"{LOGURU}.add")
def _loguru_file(call: Call) -> Values:
    # `level="INFO" if rank == 0 else "ERROR"`; what a filter asks is not followed.
    chosen = "filter" in call.keywords or any(map(_by_rank, call.keywords.values()))
    sink = call.arg(0, "sink")
    if not chosen and sink is not None and sink.all(lambda each: each.is_text):
        opened = _opened(call, sink, call.spelled(0, "sink"), call.constant(-1, "mode"))
        others = call.do.entry(PROCESS, ProcessState.log_files, LOGURU)
        call.do.set_entry(PROCESS, ProcessState.log_files, LOGURU, union([others, opened]) if others else opened)
    return singleton(call.result("the number of a file"))


def _is_file(values: Values) -> bool:
    return values.all(lambda each: isinstance(each.term, OpenFile))


@MODELS.callable(f"{GET}.addHandler")
def _add(call: Call) -> Values:
    name, given = _name_of(call.receiver), call.arg(0, "hdlr")
    if name is not None and given is not None and _is_file(given):
        call.do.set_entry(PROCESS, ProcessState.log_files, name, given)
    return NOT_ANSWERED


@MODELS.callable(*(f"{of}.{name}" for of in (GET, "logging.FileHandler") for name in ("setLevel", "addFilter")))
def _let_through(call: Call) -> Values:
    """`logger.setLevel(logging.INFO if rank == 0 else logging.ERROR)`; what a filter asks is not followed."""
    of_some = call.do.path.divergence & Divergence.RANK or any(_by_rank(each) for each in call.args)
    if isinstance(call.receiver, Unknown) and (of_some or call.name.endswith("addFilter")):
        call.do.set_flag(call.receiver, FileState.of_some_ranks)
    return NOT_ANSWERED


def _by_rank(values: Values) -> bool:
    return any((each.value.divergence | each.condition.divergence) & Divergence.RANK for each in values.bindings)


def note_logged(call: Call) -> None:
    """Log that a line gets into the files of this logger and of those above it."""
    logger = call.receiver
    by_loguru = call.name.startswith(LOGURU)
    name = LOGURU if by_loguru else "" if logger is None else _name_of(logger)
    if name is None or (logger is not None and _is_muted(call.do, logger)):
        return
    for file in _files_of(call.do, name):
        if not _is_muted(call.do, file):
            note_written(call, file, call.args, by_logger=True)


@MODELS.callable("logging.*", "loguru.*")
def _logging(call: Call) -> Values:
    if call.name.rpartition(".")[2] in LINES:
        note_logged(call)
        report(call.do, "log", (*call.args, *call.keywords.values()), call.place)
        for values in call.args:
            note_printed(call.do, values, call.place)
        return singleton(NONE)
    return singleton(call.result("a logger"))


@MODELS.callable(*(f"{GET}.{name}" for name in sorted(LINES)))
def _line(call: Call) -> Values:
    note_logged(call)
    return NOT_ANSWERED


def _is_muted(do: LibraryContext, value: Value) -> bool:
    muted = not isinstance(value, Unknown) or do.flag(value, FileState.of_some_ranks) is not NO
    return muted or do.own_attribute(value, "disabled") is not None


def _files_of(do: LibraryContext, name: str) -> Iterator[Value]:
    """What its lines get to: `train.data` hands them on to `train`, and that to the root."""
    above = [name[:end] for end, each in enumerate(name) if each == "."]
    for each in (name,) if name == LOGURU else dict.fromkeys((name, *reversed(above), "")):
        held = do.entry(PROCESS, ProcessState.log_files, each)
        for found in held.bindings if held is not None else ():
            if not found.condition.divergence & Divergence.RANK:
                yield found.value


def _name_of(logger: Value | None) -> str | None:
    """The name under which `getLogger` keeps it; empty for the root."""
    match term_of(logger):
        case CallResult("logging.getLogger", (ValueSet() as given, *_)):
            return "" if given.single == Const(None) else text_of(given.single)
        case CallResult("logging.getLogger", ()):
            return ""
    return None
