"""Folders that are made and removed."""

from __future__ import annotations

import ast

from gpudoctor.lint.domain.value import FALSE, NONE, Const, Text, Unknown, Values
from gpudoctor.lint.events.files import ChangeFolder
from gpudoctor.lint.library_call import MODELS, Call, singleton

# The position of the argument that says that it does not matter if somebody was there before.
MAKERS = {"os.makedirs": 2, "os.mkdir": -1}
REMOVERS = {"shutil.rmtree": 1, "os.rmdir": -1, "os.removedirs": -1}


@MODELS.callable(*MAKERS)
def _make(call: Call) -> Values:
    path, tolerant = call.arg(0, "name") or call.arg(0, "path"), call.arg(MAKERS[call.name], "exist_ok")
    _emit(call, call.name, path, tolerant, call.spelled(0, "name"))
    return singleton(NONE)


@MODELS.callable(*REMOVERS)
def _remove(call: Call) -> Values:
    path, tolerant = call.arg(0, "path"), call.arg(REMOVERS[call.name], "ignore_errors")
    _emit(call, call.name, path, tolerant, call.spelled(0, "path"), removes=True)
    return singleton(NONE)


@MODELS.method(Text, "mkdir")
@MODELS.method(Unknown, "mkdir")
def _make_path(call: Call) -> Values:
    """`Path("runs").mkdir(mode, parents, exist_ok)`."""
    assert call.receiver is not None
    node = call.node.func if isinstance(call.node, ast.Call) else None
    spelled = call.do.text(node.value) if isinstance(node, ast.Attribute) else ""
    _emit(call, "mkdir", singleton(call.receiver), call.arg(2, "exist_ok"), spelled)
    return singleton(NONE)


def _emit(
    call: Call, name: str, path: Values | None, tolerant: Values | None, spelled: str, removes: bool = False
) -> None:
    # `exist_ok=args.overwrite` is the user's business.
    strict = tolerant is None or tolerant.all(lambda value: value in (FALSE, Const(0), NONE))
    tolerated = not strict or call.open_ended
    call.emit(ChangeFolder, call=name, path=path, spelled=spelled, tolerated=tolerated, removes=removes)
