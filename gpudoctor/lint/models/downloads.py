"""Files from the network: functions that fetch them, and locks that let one process in after the other."""

from __future__ import annotations

from gpudoctor.lint.models.api import MODELS, Call, one
from gpudoctor.lint.values.base import NONE, Unknown, Values
from gpudoctor.lint.values.event import Download
from gpudoctor.lint.values.function import Context

# The argument that says where to: its position and its name. Those of the Hugging Face hub lock their files.
TARGETS = {
    "urllib.request.urlretrieve": (1, "filename"),
    "wget.download": (1, "out"),
    "gdown.download": (1, "output"),
    "torchvision.datasets.utils.download_url": (1, "root"),
    "torchvision.datasets.utils.download_and_extract_archive": (1, "download_root"),
    "torchvision.datasets.utils.download_file_from_google_drive": (1, "root"),
}


@MODELS.callable(*TARGETS)
def _download(call: Call) -> Values:
    index, name = TARGETS[call.name]
    path = call.arg(index, name)
    # Without a target `urlretrieve` takes a temporary file, another one in each process.
    if path is not None and path.only != NONE:
        call.emit(Download, call=call.name, path=path)
    return one(Unknown((call.name, call.identity()), f"what {call.name} returns", call.label, escaped_from=call.name))


@MODELS.callable("filelock.*", "fasteners.*", "portalocker.*")
def _lock(call: Call) -> Values:
    return one(Context("lock"))
