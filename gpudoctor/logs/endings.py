"""What no text says, but how processes have ended, and records of `error_texts` that the verdict treats apart."""

from gpudoctor.logs.error_texts import ERROR_TEXTS, ErrorText, FailureRole

SIGKILL = ErrorText(
    r"killed by SIGKILL",
    FailureRole.OWN,
    "Something killed the process from outside, mostly the kernel, because the node had no memory left.",
    "Look into the kernel's log of the node (`dmesg`) for `Out of memory: Killed process`; ask for more memory, or "
    "lower `num_workers` and what each rank loads.",
    library="kernel",
)
LEFT_BEHIND = ErrorText(
    r"",
    FailureRole.WAIT,
    "The other ranks had come to the end of their program without an error when this rank called a collective: it "
    "calls one more than they do.",
    "Look for a test of the rank around this call, and for loops that make more iterations on one rank.",
    likely=("GPU501", "GPU503", "GPU316"),
)


STOOD_APART = ErrorText(
    r"",
    FailureRole.WAIT,
    "Nothing has failed, and the processes did not stand at the same line when their stacks were taken.",
    "Look at what keeps those that stand apart: a loader, a file, a lock, or a collective that the others do not call.",
)
OUT_OF_MEMORY = next(each for each in ERROR_TEXTS if each.pattern.startswith("oom[-_]kill"))
"""How the kernel and SLURM tell that they have killed for memory."""
VAGUE = tuple(each for each in ERROR_TEXTS if each.pattern.startswith(("nccl", "CUDA error: (?:the )?launch")))
"""Errors for which another line of the log has the reason."""
ABORTED = ERROR_TEXTS[-1]
"""How a process ends that has told its error in native code."""
