"""Pictures, sounds and arrays that libraries read from files."""

from __future__ import annotations

from gpudoctor.lint.models.api import MODELS, Call, one
from gpudoctor.lint.values.base import Unknown, Values
from gpudoctor.lint.values.event import ReadFile

READERS = (
    "PIL.Image.open", "cv2.imread", "imageio.imread", "imageio.v2.imread", "imageio.v3.imread", "skimage.io.imread",
    "tifffile.imread", "torchvision.io.read_image", "torchvision.io.decode_image", "torchvision.io.read_video",
    "torchaudio.load", "soundfile.read", "librosa.load", "h5py.File", "nibabel.load",
)  # fmt: skip


@MODELS.callable(*READERS)
def _read(call: Call) -> Values:
    call.emit(ReadFile, call=call.name)
    return one(Unknown((call.name, call.identity()), f"what {call.name} returns", call.label, escaped_from=call.name))
