"""What the process that analyses keeps while a program is edited again and again."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("pygls", reason="the extra lsp is not installed")

from gpudoctor.server.analysis_messages import AnalysisJob
from gpudoctor.server.analysis_process import AnalysisProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the memory of another process"),
]
PROGRAM = Path(__file__).parents[2] / "fixtures" / "programs" / "broken_ddp" / "train.py"


def test_memory_is_flat_while_a_program_is_edited() -> None:
    async def scenario() -> None:
        process = AnalysisProcess()
        path, text = str(PROGRAM), PROGRAM.read_bytes()
        try:
            for number in range(60):
                edited = text + b"\nan_edit = %d\n" % number
                checked = await process.ask(AnalysisJob("check", (path,), {path: edited}, root=str(PROGRAM.parent)))
                assert checked.found
                if number == 20:
                    before = _resident(process.pid)
            # The garbage of forty edits would be some eight.
            assert _resident(process.pid) - before < 3
        finally:
            await process.close()

    asyncio.run(asyncio.wait_for(scenario(), 600))


def _resident(pid: int | None) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2
