"""What is read from the stacks that Python writes where a signal ends it."""

import pytest

from gpudoctor.run.fatal_stacks import fatal_of

PROGRAM = (
    "Thread 0x00007f (most recent call first):\n"
    '  File "/lib/dist.py", line 3 in all_reduce\n'
    '  File "/job/train.py", line 9 in <module>\n'
)
OTHER = 'Thread 0x00007e [pin] (most recent call first):\n  File "/lib/threading.py", line 5 in run\n\n'


@pytest.mark.parametrize("program", [PROGRAM, PROGRAM.replace("Thread", "Current thread")])
def test_the_thread_that_runs_the_program_is_told(program: str) -> None:
    frames = [("/job/train.py", 9, "<module>"), ("/lib/dist.py", 3, "all_reduce")]
    assert fatal_of(f"Fatal Python error: Aborted\n\n{OTHER}{program}\nExtension modules: numpy (total: 1)\n") == (
        "Aborted",
        frames,
    )


def test_a_file_that_is_empty_or_cut_off_tells_less() -> None:
    assert fatal_of("") is None
    assert fatal_of("Fatal Python error: Segmentation fault\n\nThread 0x00") == ("Segmentation fault", [])


def test_of_sigterm_python_tells_only_where_the_process_stood() -> None:
    assert fatal_of(PROGRAM.replace("Thread", "Current thread")) == (
        "",
        [("/job/train.py", 9, "<module>"), ("/lib/dist.py", 3, "all_reduce")],
    )
