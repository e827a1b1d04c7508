"""What CANN says on NPUs of Ascend: a code stands in front of each message."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole

_torch_npu = partial(ErrorText, library="torch_npu")

_WAIT = FailureRole.WAIT

ASCEND_TEXTS: tuple[ErrorText, ...] = (
    _torch_npu(
        r"EI0002: |reason=\[(?:task|stream sync) timeout\]|EE1002: ",
        "An NPU did not finish in its time: mostly a rank had failed, came late or did not call a collective of HCCL.",
        "Look for a rank that failed before, or that has other work; `HCCL_EXEC_TIMEOUT` is how long they wait.",
        role=_WAIT,
        likely=("GPU501", "GPU503", "GPU412"),
    ),
    _torch_npu(
        r"EI0006: ",
        "Another rank did not come to connect in its time: it had failed, came late, or cannot be reached.",
        "Look at what the other ranks did then; `HCCL_CONNECT_TIMEOUT` is how long they wait.",
        role=_WAIT,
        likely=("GPU501", "GPU412"),
    ),
    _torch_npu(
        r"EI0005: ",
        "The ranks called different collectives, or with tensors of different sizes.",
        "Let every rank call the same collectives in the same order, with tensors of one shape.",
        likely=("GPU512", "GPU518"),
    ),
    _torch_npu(
        r"EI0001: |EI0004: |EI001[4567]: ",
        "HCCL was told something wrong: an environment variable, or the table of ranks; the text says which.",
    ),
    _torch_npu(
        r"EI0007: |EI0011: |EL0004: ",
        "The NPU of this rank had no memory left, or none of another resource that the text names.",
        "Lower the batch of each rank, or look for another process on its NPU (`npu-smi info`).",
    ),
    _torch_npu(
        r"EI0008: ",
        "The nodes have different versions of CANN.",
        "Install one version on all of them.",
    ),
    _torch_npu(
        r"EI0009: |EI001[0238]: ",
        "A link between NPUs, or the memory of one, failed.",
        "Look at the ports and links of the node that the text names (`hccn_tool`, `npu-smi info`).",
    ),
    _torch_npu(
        r"EJ0001: |EI0019: |EI0020: ",
        "The NPU, or the port that HCCL listens on, is still in use: mostly by a training that ran before.",
        "End what is left of it (`npu-smi info` shows its processes), and wait ten seconds.",
    ),
)
HCCL_FAILED = _torch_npu(
    r"HCCL (?:function )?error|OPS function error: Hccl|call hccl api failed",
    "HCCL, which takes the place of NCCL on NPUs, could not do what was asked.",
    "The log of this rank in `~/ascend/log` says why.",
)
"""What Python says: the code stands in the lines behind it."""
