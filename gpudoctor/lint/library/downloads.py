"""Files from the network: functions that fetch them, and locks that let one process in after the other."""

from __future__ import annotations

import itertools
import re

from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import ContextManager
from gpudoctor.lint.domain.symbols import OpenFile
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Text, Unknown, Value, Values, text_of
from gpudoctor.lint.events.files import Download, as_path
from gpudoctor.lint.interface.contents import known_items
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, always, singleton
from gpudoctor.lint.library.checkpoint_files import note_written, opened_for_writing, report_written
from gpudoctor.manifest.compiled import declared, functions
from gpudoctor.manifest.effects import DownloadEffect


def _opens(name: str) -> bool:
    known = declared(name)
    effect = known.effect(DownloadEffect) if known is not None else None
    return effect is not None and effect.opens


OPENING = frozenset(name for name in functions("downloads") if _opens(name))
"""What opens an address and hands on what is there."""
WRITING = ("write", "writelines", "writeheader", "writerow", "writerows")
"""Methods of open files, and of tables that are written to one."""


@MODELS.effect(DownloadEffect)
def _download(call: Call, effect: DownloadEffect) -> Values:
    if effect.opens:
        return call.unknown(OpenFile(call.allocation_site(), None, "r", ""), "what is there", escaped_from=call.name)
    path = call.given(effect.to)
    # Without a target `urlretrieve` takes a temporary file, another one in each process.
    if path is not None and path.single != NONE:
        call.emit(Download, call=call.name, path=as_path(path))
    return singleton(call.result(fresh=True))


_FETCH = {"wget": ("-O", "--output-document", "-P"), "curl": ("-o", "--output"), "gdown": ("-O", "--output")}
"""Commands that fetch a file, with no lock, and the options that say where to."""


@MODELS.callable("shlex.split")
def _split_command(call: Call) -> Values:
    words = _words_of(call.first)
    return singleton(TupleOf(tuple(map(singleton, words)))) if words else NOT_ANSWERED


@MODELS.callable(
    "os.system", *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen"))
)
def _fetch_by_command(call: Call) -> Values:
    """`subprocess.run(["wget", url, "-O", path])`."""
    items = known_items(call.do, call.first)
    words = [each.single for each in items] if items is not None else _words_of(call.first)
    name = (text_of(words[0]) or "").rpartition("/")[2] if words else ""
    for flag, target in itertools.pairwise(words):
        if text_of(flag) in _FETCH.get(name, ()) and target is not None:
            call.emit(Download, call=name, path=as_path(singleton(target)))
    return NOT_ANSWERED


def _words_of(text: Value | None) -> list[Value]:
    """The words of a command that stand in a text, of which parts may not be known; none where it quotes any."""
    parts = text.parts if isinstance(text, Text) else (text,) if isinstance(text, Const) else ()
    found: list[list[Value]] = [[]]
    for part in parts:
        known = text_of(part)
        if known is None:
            found[-1].append(part)
            continue
        if any(quote in known for quote in "\"'\\$`;|&"):
            return []
        first, *others = re.split(r"\s+", known)
        found[-1] += [Const(first)] if first else []
        found += [[Const(each)] if each else [] for each in others]
    return [each[0] if len(each) == 1 else Text(tuple(each)) for each in found if each]


@MODELS.callable("torch.hub.load")
def _hub(call: Call) -> Values:
    """The archive of a repository is unpacked into a folder that all processes share."""
    if call.constant(-1, "source") != "local":
        call.emit(Download, call=call.name, path=singleton(Const("~/.cache/torch/hub")))
    return MODELS.prefixes["torchvision.models."](call)


@MODELS.callable("clip.load", "clip.clip.load")
def _clip(call: Call) -> Values:
    """OpenAI's CLIP by its name: written where it stays, with no lock. A path is no name."""
    name = call.text(0, "name")
    if name is not None and name.startswith(("RN", "ViT-")):
        root = call.arg(3, "download_root")
        call.emit(Download, call=call.name, path=as_path(root or singleton(Const("~/.cache/clip"))))
    return NOT_ANSWERED


@MODELS.callable("pytorch_transformers.*", "pytorch_pretrained_bert.*")
def _old_transformers(call: Call) -> Values:
    """What became transformers copies what it has fetched to its place, with no lock."""
    name = call.text(0, "pretrained_model_name_or_path") or "/"
    if call.name.endswith(".from_pretrained") and "/" not in name:
        folder = call.keywords.get("cache_dir")
        call.emit(Download, call=call.name, path=as_path(folder or singleton(Const("~/.cache/torch"))))
    return MODELS.prefixes["transformers."](call)


@MODELS.callable(*(f"io.open.{each}" for each in WRITING), "shutil.copyfileobj")
def _write_fetched(call: Call) -> Values:
    """`file.write(urlopen(url).read())`."""
    copied = call.name == "copyfileobj" or call.receiver is None
    file = call.arg(1, "fdst") if copied else singleton(call.receiver) if call.receiver is not None else None
    opened, content = opened_for_writing(file), call.arg(0, "fsrc" if copied else "data")
    fetched = {_fetched_by(value) for value in content or ()} - {""}
    if opened is not None and len(fetched) == 1:
        call.emit(Download, call=fetched.pop(), path=as_path(opened[0]))
    elif call.receiver is not None:
        note_written(call, call.receiver, call.args)
        report_written(call, file, call.args)
    return NOT_ANSWERED


def _fetched_by(value: Value) -> str:
    """What has opened the address from which these bytes come; empty where that is not known."""
    while isinstance(value, Unknown):
        known = next((name for name in OPENING if f"{value.escaped_from}.".startswith(f"{name}.")), "")
        if known:
            return known
        match value.term:
            # `for chunk in response.iter_content():`
            case Anonymous(of=Value() as inside):
                value = inside
            case _:
                return ""
    return ""


MODELS.callable("filelock.*", "fasteners.*", "portalocker.*")(always(ContextManager("lock")))
