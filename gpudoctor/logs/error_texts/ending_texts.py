"""What remains: errors that say how a process ended, and files that are not there."""

from __future__ import annotations

from functools import partial

from gpudoctor.logs.error_texts.error_text import ErrorText

_python = partial(ErrorText, library="python")

ENDING_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"Parent communicator missing in eager initialization mode",
        "`send` and `recv` of a group that was made with `device_id=` use the communicator that it made then, and "
        "there is none for this call.",
        "Send tensors of the GPU that `device_id` names, or leave it out of `init_process_group`.",
    ),
    ErrorText(r"INTERNAL ASSERT FAILED", "PyTorch stopped on an error of its own.", library="torch"),
    ErrorText(
        r"CUDA error: (?:the )?launch timed out|CUDA error",
        "A call of CUDA failed; it may have been an earlier one than the line that is named.",
        "Run again with `CUDA_LAUNCH_BLOCKING=1`.",
        library="cuda",
    ),
    ErrorText(
        r": Assertion [`'].*' failed\.",
        "A check in native code did not hold, and ended the process: the file that is named says of which library.",
        "Look for the check in its issues, and update it; `python -X faulthandler` prints where Python was.",
        library="libc",
    ),
    ErrorText(
        r"free\(\): invalid|double free or corruption|corrupted size vs\. prev_size|malloc\(\): |munmap_chunk\(\)|"
        r"corrupted double-linked list|stack smashing detected|free\(\): double free",
        "Native code has destroyed the process's heap: an extension, or libraries of different versions together.",
        "Start it with `python -X faulthandler`, and leave extensions out, one after the other.",
    ),
    ErrorText(
        r"Caught signal 7|Bus error|SIGBUS",
        "The process was killed by a bus error: mostly shared memory that is full, or a file that was cut under it.",
        "Give the container more (`--shm-size=16g`, `--ipc=host`).",
        likely=("GPU431",),
    ),
    ErrorText(
        r"Segmentation fault|Signal 11|SIGSEGV|Caught signal 11|exit code -11|"
        r"access violation|heap corruption",
        "The process was killed by an error in native code: an extension, a driver, or shared memory that is full.",
        "Start it with `python -X faulthandler`, which prints where Python was.",
    ),
    ErrorText(
        r"SIGFPE|SIGILL",
        "Native code did what the processor refuses: it divided by zero (SIGFPE), or used an instruction that this "
        "kind of processor does not have (SIGILL).",
        "Start it with `python -X faulthandler`, which prints where Python was, and update the library that is named: "
        "it may be built for another machine.",
    ),
    ErrorText(
        r"PermissionError|\[Errno 13\]|\[Errno 1\] Operation not permitted|Operation not permitted",
        "The process may not read or write a file or folder.",
        "Compare its owner with the user of the job on this node; caches of other users (`/tmp/...`) are a usual case.",
        library="kernel",
    ),
    _python(
        r"FileNotFoundError|\[Errno (?:2|39)\]|Directory not empty",
        "A folder was removed that another process had begun to remove or still wrote: several ranks do it at once.",
        "Remove it on one rank, and let the others wait (`barrier`).",
        inside=r"shutil\.py:_?rmtree\w*",
        likely=("GPU608",),
    ),
    _python(
        r"\[Errno 39\]|Directory not empty",
        "A folder was to be moved, or removed, where there is one already with something in it: another rank, or an "
        "earlier run, has put it there.",
        "Do it on one rank, and let the others wait (`barrier`).",
        likely=("GPU608",),
    ),
    _python(
        r"FileNotFoundError: \[Errno 2\] .*'? -> '?",
        "What was to be renamed or moved is not there, or the folder to move it to: mostly another rank has renamed it "
        "before this one.",
        "Rename on one rank, and let the others wait (`barrier`).",
        likely=("GPU608",),
    ),
    _python(
        r"FileNotFoundError: \[Errno 2\]",
        "A file or a folder is not there: the path is wrong, this node does not have it, or another rank was still to "
        "write it.",
        "Look for it on the node of this rank; let ranks wait (`barrier`) for what one of them writes.",
        likely=("GPU604", "GPU610"),
    ),
    _python(
        r"FileExistsError|\[Errno 17\]|[Oo]utput (?:directory|dir|folder)\b.* already exists",
        "A file or folder was to be made that is there already: another rank, or an earlier run, has made it.",
        "Make it on one rank, or with `exist_ok=True`.",
        likely=("GPU608",),
    ),
    ErrorText(
        r"IsADirectoryError|NotADirectoryError|File name too long|\[Errno (?:18|20|21|36|40)\]",
        "A path is not of the kind that is needed: a folder in place of a file, or a name that the file system does "
        "not take.",
        "Print the path as this rank builds it.",
        library="kernel",
    ),
)
