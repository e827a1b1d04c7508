"""Pictures, sounds and arrays that libraries read from files."""

from __future__ import annotations

from gpudoctor.lint.domain.symbols import CallResult
from gpudoctor.lint.domain.value import Unknown, Values
from gpudoctor.lint.events.files import ReadFile
from gpudoctor.lint.library_call import MODELS, Call, singleton

READERS = (
    "PIL.Image.open", "cv2.imread", "imageio.imread", "imageio.v2.imread", "imageio.v3.imread", "skimage.io.imread",
    "tifffile.imread", "torchvision.io.read_image", "torchvision.io.decode_image", "torchvision.io.read_video",
    "torchaudio.load", "soundfile.read", "librosa.load", "h5py.File", "nibabel.load",
)  # fmt: skip


@MODELS.callable(*READERS)
def _read(call: Call) -> Values:
    call.emit(ReadFile, call=call.name)
    return singleton(
        Unknown(
            CallResult(call.name, call.allocation_site()),
            f"what {call.name} returns",
            call.label,
            escaped_from=call.name,
        )
    )
