"""Training on several GPUs is what is judged."""

from typing import Literal

from gpudoctor.manifest.effects import GpuCount, waits_for_gpu

def is_available() -> Literal[True]: ...
def device_count() -> GpuCount: ...
@waits_for_gpu()
def synchronize(device=None, /): ...
