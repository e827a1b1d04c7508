"""What an editor waits for: from the change of a program to its diagnostics, in processor time; and memory after many.

    python -m tests.benchmarks.editor_latency [--edits 10] [--long 1000] [--lines 60 400]

The real server is asked by a client over its standard streams. Its processor time is that of the server and of the
process that analyses, without the wait for the next key. An edit changes the text at its end, so that no result can be
reused. The programs are those of `fixtures/programs` and `fixtures/rules` that are long enough: most have 60 to 100
lines, the longest 213. Linux tells the processor time of another process (`schedstat`). No test asserts a time.
"""

import argparse
import asyncio
import os
import platform
import statistics
import tempfile
from pathlib import Path

from tests.support.editor import ROOT, Editor, editing

AIMS = {"median": 0.150, "95th percentile": 0.400}


def main() -> int:
    """Measure, and print two tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edits", type=int, default=10, help="of each program; default: 10")
    parser.add_argument("--long", type=int, default=1000, help="edits of one program, for its memory; default: 1000")
    parser.add_argument("--lines", type=int, nargs=2, default=(60, 400), help="of the programs; default: 60 400")
    options = parser.parse_args()
    programs = _programs(*options.lines)
    with tempfile.TemporaryDirectory() as folder:
        took = asyncio.run(_times(Path(folder), programs, options.edits))
    every = sorted(each for edits in took.values() for each in edits)
    print(f"{len(programs)} programs, {len(every)} edits; Python {platform.python_version()}, {os.cpu_count()} CPUs\n")
    found = {"median": statistics.median(every), "95th percentile": every[int(0.95 * len(every))]}
    print("| of all edits | ms of processor time | aim |\n|---|---|---|")
    for name, seconds in found.items():
        print(f"| {name} | {seconds * 1000:.0f} | {AIMS[name] * 1000:.0f} |")
    print("\n| slowest programs | median ms |\n|---|---|")
    for path in sorted(took, key=lambda path: -statistics.median(took[path]))[:5]:
        print(f"| {path.relative_to(ROOT / 'fixtures')} | {statistics.median(took[path]) * 1000:.0f} |")
    with tempfile.TemporaryDirectory() as folder:
        memory = asyncio.run(_memory(Path(folder), programs[0], options.long))
    print("\n| edits | MiB of server and analysis |\n|---|---|")
    for count, mib in memory.items():
        print(f"| {count} | {mib:.1f} |")
    return 0


def _programs(least: int, most: int) -> list[Path]:
    paths = (path for room in ("programs", "rules") for path in sorted((ROOT / "fixtures" / room).rglob("*.py")))
    texts = ((path, path.read_bytes()) for path in paths)
    starting = (each for each in texts if b"torch" in each[1] and b"__main__" in each[1] and _is_text(each[1]))
    return [path for path, text in starting if least <= text.count(b"\n") <= most]


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


async def _times(folder: Path, programs: list[Path], edits: int) -> dict[Path, list[float]]:
    took: dict[Path, list[float]] = {}
    async with editing(folder) as editor:
        for path in programs:
            name = os.path.relpath(path, folder)
            editor.open(name, path.read_text())
            await editor.told(name)
            took[path] = [await _edit(editor, name, path.read_text(), number) for number in range(edits)]
            editor.close(name)
    return took


async def _edit(editor: Editor, name: str, text: str, number: int) -> float:
    before = _computed(editor)
    # At the end it concerns nothing; it is another program all the same.
    editor.type(name, f"{text}\nan_edit = {number}\n")
    await editor.told(name)
    return _computed(editor) - before


async def _memory(folder: Path, path: Path, edits: int) -> dict[int, float]:
    found: dict[int, float] = {}
    async with editing(folder) as editor:
        name = os.path.relpath(path, folder)
        editor.open(name, path.read_text())
        await editor.told(name)
        for number in range(1, edits + 1):
            await _edit(editor, name, path.read_text(), number)
            editor.published.clear()
            if number in (1, 10, 100, 300, 1000) or number == edits:
                found[number] = sum(map(_resident, _processes(editor)))
    return found


def _processes(editor: Editor) -> list[int]:
    server = editor.client._server.pid
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    return [server, *map(int, children)]


def _computed(editor: Editor) -> float:
    """Seconds of processor time of the server and what it has started."""
    threads = [task for pid in _processes(editor) for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in threads) / 1e9


def _resident(pid: int) -> float:
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1024**2


if __name__ == "__main__":
    raise SystemExit(main())
