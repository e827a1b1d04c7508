"""The process that analyses, as the server sees it: it is started where it is needed, asked one thing after the other,
and interrupted where the answer is not wanted any more."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import gpudoctor
from gpudoctor.errors import GpudoctorError
from gpudoctor.server.analysis_messages import HEADER, AnalysisJob, Interrupted, packed, unpacked
from gpudoctor.server.analysis_worker import ENDS_A_JOB

_WORKER = "gpudoctor.server.analysis_worker"
_SIGNAL_AGAIN = 0.05
"""Seconds. A signal is lost where it comes in the middle of an import, or in a destructor."""
_SIGNALS = 20
"""So often it is tried; then the process is ended, and the next job begins with another one."""


class Superseded(Exception):
    """The answer is not wanted any more."""


class AnalysisProcess:
    """Asks a process of its own. Not for several event loops."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._asked = 0
        self._wanted = 0
        self._busy = 0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The number of the process, where there is one."""
        return self._process.pid if self._process else None

    async def ask(self, job: AnalysisJob) -> Any:
        """The answer to a job; Superseded where it was interrupted."""
        self._asked += 1
        number = self._asked
        done = asyncio.ensure_future(self._in_turn(job, number))
        try:
            # The answer must be read to its end, whoever has given up waiting for it.
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            if self._busy == number:
                self._end_job(number, _SIGNALS)
            raise

    def interrupt(self) -> None:
        """Let nobody wait any more for what was asked until now."""
        self._wanted = self._asked
        if self._busy:
            self._end_job(self._busy, _SIGNALS)

    async def close(self) -> None:
        """End the process."""
        self._closed = True
        self.interrupt()
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def _in_turn(self, job: AnalysisJob, number: int) -> Any:
        async with self._turn:
            if number <= self._wanted or self._closed:
                raise Superseded
            process = await self._started()
            self._busy = number
            try:
                answer = await _answer_of(process, job)
            except (asyncio.IncompleteReadError, ConnectionError):
                await process.wait()
                if number <= self._wanted or self._closed:
                    raise Superseded from None
                raise GpudoctorError("the analysis has ended unexpectedly; the log of the server may say why") from None
            finally:
                self._busy = 0
        if isinstance(answer, Interrupted) or number <= self._wanted:
            raise Superseded
        return answer

    def _end_job(self, number: int, left: int) -> None:
        process = self._process
        if self._busy != number or process is None or process.returncode is not None:
            return
        if ENDS_A_JOB is None or not left:
            process.kill()
            return
        process.send_signal(ENDS_A_JOB)
        asyncio.get_running_loop().call_later(_SIGNAL_AGAIN, self._end_job, number, left - 1)

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            # Of the folder it is started in, Python would import modules: it is not the project's.
            home = Path(gpudoctor.__file__).parents[1]
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                _WORKER,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                cwd=home,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        return self._process


async def _answer_of(process: asyncio.subprocess.Process, job: AnalysisJob) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(packed(job))
    await process.stdin.drain()
    (size,) = HEADER.unpack(await process.stdout.readexactly(HEADER.size))
    return unpacked(await process.stdout.readexactly(size))
