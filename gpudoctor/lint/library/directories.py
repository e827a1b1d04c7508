"""Folders that are made and removed, and files that are removed."""

from __future__ import annotations

from gpudoctor.lint.domain.value import FALSE, NONE, Const, Text, Unknown, Values
from gpudoctor.lint.events.files import ChangeFolder, as_path
from gpudoctor.lint.interface.library_call import MODELS, Call, singleton
from gpudoctor.manifest.effects import FolderEffect


@MODELS.effect(FolderEffect)
def _change(call: Call, effect: FolderEffect) -> Values:
    spelled = call.spelled(call.position(effect.path), effect.path)
    return _emit(call, call.given(effect.path), call.given(effect.tolerates), spelled, effect.removes)


@MODELS.method((Text, Unknown), "mkdir")
def _make_path(call: Call[Text | Unknown]) -> Values:
    """`Path("runs").mkdir(mode, parents, exist_ok)`."""
    return _emit(call, singleton(call.receiver), call.arg(2, "exist_ok"), call.spelled_receiver)


@MODELS.method((Text, Unknown), "unlink")
def _remove_path(call: Call[Text | Unknown]) -> Values:
    """`Path("old.pt").unlink(missing_ok)`."""
    return _emit(call, singleton(call.receiver), call.arg(0, "missing_ok"), call.spelled_receiver, removes=True)


def _emit(call: Call, path: Values | None, tolerant: Values | None, spelled: str, removes: bool = False) -> Values:
    # `exist_ok=args.overwrite` is the user's business.
    strict = tolerant is None or tolerant.all(lambda value: value in (FALSE, Const(0), NONE))
    tolerated = not strict or call.open_ended
    call.emit(ChangeFolder, call=call.name, path=as_path(path), spelled=spelled, tolerated=tolerated, removes=removes)
    return singleton(NONE)
