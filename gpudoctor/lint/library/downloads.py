"""Files from the network: functions that fetch them, and locks that let one process in after the other."""

from __future__ import annotations

from gpudoctor.lint.domain.function import ContextManager
from gpudoctor.lint.domain.value import NONE, Const, Values
from gpudoctor.lint.events.files import Download
from gpudoctor.lint.library_call import MODELS, NOT_ANSWERED, Call, singleton
from gpudoctor.manifest.effects import DownloadEffect


@MODELS.effect(DownloadEffect)
def _download(call: Call, effect: DownloadEffect) -> Values:
    path = call.given(effect.to)
    # Without a target `urlretrieve` takes a temporary file, another one in each process.
    if path is not None and path.single != NONE:
        call.emit(Download, call=call.name, path=path)
    return singleton(call.result(fresh=True))


@MODELS.callable("torch.hub.load")
def _hub(call: Call) -> Values:
    """The archive of a repository is unpacked into a folder that all processes share."""
    if call.constant(-1, "source") != "local":
        call.emit(Download, call=call.name, path=singleton(Const("~/.cache/torch/hub")))
    return MODELS.prefixes["torchvision.models."](call)


@MODELS.callable("clip.load", "clip.clip.load")
def _clip(call: Call) -> Values:
    """OpenAI's CLIP by its name: written where it stays, with no lock. A path is no name."""
    name = call.constant(0, "name")
    if isinstance(name, str) and name.startswith(("RN", "ViT-")):
        call.emit(Download, call=call.name, path=call.arg(3, "download_root") or singleton(Const("~/.cache/clip")))
    return NOT_ANSWERED


@MODELS.callable("pytorch_transformers.*", "pytorch_pretrained_bert.*")
def _old_transformers(call: Call) -> Values:
    """What became transformers copies what it has fetched to its place, with no lock."""
    name = call.constant(0, "pretrained_model_name_or_path")
    if call.name.endswith(".from_pretrained") and isinstance(name, str) and "/" not in name:
        call.emit(Download, call=call.name, path=call.keywords.get("cache_dir") or singleton(Const("~/.cache/torch")))
    return MODELS.prefixes["transformers."](call)


@MODELS.callable("filelock.*", "fasteners.*", "portalocker.*")
def _lock(call: Call) -> Values:
    return singleton(ContextManager("lock"))
