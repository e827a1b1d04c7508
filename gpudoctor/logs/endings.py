"""What no text says, but how processes have ended, and records of `error_texts` that the verdict treats apart."""

import re

from gpudoctor.logs.error_texts import ERROR_TEXTS
from gpudoctor.logs.error_texts.ascend_texts import HCCL_FAILED
from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole
from gpudoctor.logs.error_texts.nccl_texts import VAGUE_NCCL_TEXTS

SIGKILL = ErrorText(
    r"killed by SIGKILL",
    "Something killed the process from outside, mostly the kernel, because the node had no memory left.",
    "Look into the kernel's log of the node (`dmesg`) for `Out of memory: Killed process`; ask for more memory, or "
    "lower `num_workers` and what each rank loads.",
    library="kernel",
)
LEFT_BEHIND = ErrorText(
    r"",
    "The other ranks had come to the end of their program without an error when this rank called a collective: it "
    "calls one more than they do.",
    "Look for a test of the rank around this call, and for loops that make more iterations on one rank.",
    role=FailureRole.WAIT,
    likely=("GPU501", "GPU503", "GPU316"),
)


STOOD_APART = ErrorText(
    r"",
    "Nothing has failed, and the processes did not stand at the same line when their stacks were taken.",
    "Look at what keeps those that stand apart: a loader, a file, a lock, or a collective that the others do not call.",
    role=FailureRole.WAIT,
)
STOOD_ALONE = ErrorText(
    r"",
    "Nothing has failed in this log: it has the stack of one process, which does not tell whether that one kept the "
    "others waiting, or waited itself.",
    "Take the stacks of all ranks at once: `gpudoctor run --attach PID`, or `py-spy dump` for each.",
    role=FailureRole.WAIT,
)
WATCHED = ErrorText(
    r"",
    "`gpudoctor run` watched this job, and saw where each rank was when they did not get on.",
    "Its whole report stands at the end of this log.",
    role=FailureRole.WAIT,
)
_RAISED = ErrorText(
    r"exit code 1$",
    "This process ended with an error of its own, which is not in the log: Python ends so after a traceback.",
    "Look for it further up, or in the file of this rank: `torchrun --log-dir LOGS --tee 3` keeps one for each, and "
    "`@record` around the main function brings it into the launcher's table.",
)
_CUT_OFF = ErrorText(
    r"",
    "The log has the calls that led to the error, and not the error itself.",
    "Read the whole log, with the lines after this traceback.",
)
_CODES = (
    _RAISED,
    ErrorText(
        r"ended; the log does not tell how$",
        "The launcher saw this process fail, and the log does not tell why.",
        _RAISED.do,
    ),
    ErrorText(
        r"exit code 2$",
        "This process was started in a way that it refuses: Python ends so where an option or the script is wrong.",
        "Look for `error:` or `can't open file` further up.",
    ),
    ErrorText(
        r"exit code 12[67]$",
        "The shell did not find the command to start, or may not execute it.",
        "Activate the environment in the job's script, or give the whole path.",
    ),
)
CUT = "a traceback that is cut off before its error"
"""The text of an error that is not in the log."""


def meaning_of_end(text: str, *, exit: bool) -> ErrorText | None:
    """What it says that a process ended like this, where its error is not in the log."""
    if text == CUT:
        return _CUT_OFF
    return next((each for each in _CODES if exit and re.match(each.pattern, text)), None)


LOADER_THREAD = next(each for each in ERROR_TEXTS if each.inside.startswith(r"pin_memory\.py:"))
"""How a thread that serves a loader ends after its workers or its process."""
NOT_LISTENING = next(each for each in ERROR_TEXTS if each.pattern.startswith("failed to listen"))
"""What is said where no address was left to listen on, and not why."""
OUT_OF_MEMORY = next(each for each in ERROR_TEXTS if each.pattern.startswith("oom[-_]kill"))
"""How the kernel and SLURM tell that they have killed for memory."""
SHARED_MEMORY = next(each for each in ERROR_TEXTS if "insufficient shared memory" in each.pattern)
"""How a worker of a loader ends where shared memory is full."""
NO_SPACE = next(each for each in ERROR_TEXTS if "Disk quota exceeded" in each.pattern)
"""What is said of it before, as of any disk."""
CLOSED = next(each for each in ERROR_TEXTS if each.pattern.startswith("closing signal"))
"""What a launcher says when it ends its processes, whyever."""
UNLIKE_CALLS = next(each for each in ERROR_TEXTS if each.pattern.startswith("Detected mismatch"))
"""What ranks say that compare their calls."""
VAGUE = (
    *(each for each in VAGUE_NCCL_TEXTS if each.pattern.startswith("nccl")),
    *(each for each in ERROR_TEXTS if each.pattern.startswith("CUDA error: (?:the )?launch")),
    HCCL_FAILED,
)
"""Errors for which another line of the log has the reason."""
