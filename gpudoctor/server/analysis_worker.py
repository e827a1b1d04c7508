"""The process that analyses for the server: it reads jobs from its standard input and answers on its standard output.

It works in its main thread, where a timer ends a step of the analysis that does not end by itself, and where the signal
of the server ends the whole job.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType
from typing import BinaryIO

from gpudoctor.server.analysis_messages import HEADER, AnalysisJob, Interrupted, packed, unpacked
from gpudoctor.server.analysis_work import AnalysisWork

ENDS_A_JOB = getattr(signal, "SIGUSR1", None)
"""Windows has no such signal: there the process is ended."""
_GROWTH = 1.25
"""So many times the memory that was there after the last look for garbage, and it is looked for again: every tenth
edit of a usual program. A lint alone leaves its garbage for later, which in here would be twice the memory."""


class JobEnded(BaseException):
    """The server wants the job no more. No handler of errors may keep it."""


class Worker:
    """Does one job after the other."""

    def __init__(self, jobs: BinaryIO, answers: BinaryIO) -> None:
        self._jobs = jobs
        self._answers = answers
        self._work = AnalysisWork()
        self._busy = False
        self._blocks = 0

    def run(self) -> None:
        """Until the server has nothing more to ask, or is gone."""
        if ENDS_A_JOB is not None:
            signal.signal(ENDS_A_JOB, self._end_job)
        while header := self._jobs.read(HEADER.size):
            (size,) = HEADER.unpack(header)
            self._answers.write(packed(self._done(unpacked(self._jobs.read(size)))))
            self._answers.flush()
            self._clear_up()

    def _clear_up(self) -> None:
        """While nobody waits: what is answered has left circles of objects behind."""
        if sys.getallocatedblocks() > _GROWTH * self._blocks:
            gc.collect()
            self._blocks = sys.getallocatedblocks()

    def _done(self, job: AnalysisJob) -> object:
        try:
            self._busy = True
            answer = getattr(self._work, job.kind)(job)
            self._busy = False
        except JobEnded:
            self._busy = False
            return Interrupted()
        return answer

    def _end_job(self, _: int, frame: FrameType | None) -> None:
        # A module that is only half imported would stay so. The server asks again.
        while frame is not None:
            if frame.f_code.co_filename.startswith("<frozen importlib"):
                return
            frame = frame.f_back
        if self._busy:
            self._busy = False
            raise JobEnded


def main() -> None:
    """Keep standard output for answers: what else is printed goes to the log of the editor."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    # Ctrl-C is for the server, which ends by it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Worker(sys.stdin.buffer, answers).run()


if __name__ == "__main__":
    main()
