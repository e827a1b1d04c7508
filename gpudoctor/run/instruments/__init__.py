"""What is seen of a training program: each instrument sits on a seam that every program passes, and is cheap.

None of them is called for each module, changes a tensor, or takes part in a collective. They are put in place when
`import torch` has come to its end, so that names imported from torch later are the watched ones.
"""

from __future__ import annotations

from gpudoctor.run.instruments import (
    accelerate_calls,
    command_line,
    compiling,
    crashes,
    deepspeed_engine,
    file_writes,
    groups,
    lightning_samplers,
    loaders,
    loggers,
    model_parallel,
    moves,
    randomness,
    tensor_reads,
    training,
    wrappers,
)
from gpudoctor.run.instruments.state import State
from gpudoctor.run.recorder import Recorder


def install(folder: str) -> None:
    """Put all instruments in place; one that this torch has no seam for is left out, and the recording says so."""
    recorder = Recorder(folder)
    state = State(recorder)
    every = (
        *(compiling, crashes, groups, tensor_reads, wrappers, loaders),
        *(moves, training, file_writes, loggers, randomness),
        *(command_line, accelerate_calls, lightning_samplers, deepspeed_engine, model_parallel),
    )
    for instrument in every:
        recorder.guarded(instrument.watch)(state)
