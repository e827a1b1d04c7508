"""What the server says while one types, opens and closes: the real server, and a client over its standard streams."""

import os
from pathlib import Path

import pytest

from tests.support.editor import Editor, edit, editing, until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BAD = (ROOT / "fixtures" / "rules" / "data" / "missing_set_epoch" / "bad_page.py").read_text()
LOOP = "for epoch in range(3):"
GOOD = BAD.replace("    for x, y", "    sampler.set_epoch(epoch)\n    for x, y")
CALLS = "from helper import begin\n" + BAD.replace("    for x, y", "    begin(sampler, epoch)\n    for x, y")
HELPS = "def begin(sampler, epoch):\n    sampler.set_epoch(epoch)\n"
HELPS_NOT = "def begin(sampler, epoch):\n    pass\n"


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines()) if part in line)


def test_findings_come_and_go_with_the_text(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editing(tmp_path) as editor:
            uri = editor.open("train.py", BAD)
            (found,) = await editor.told("train.py", bool)
            assert (found.code, found.source, found.range.start.line) == ("GPU302", "gpudoctor", line_of(BAD, LOOP))
            assert "Help: " in found.message
            # There is no site yet, so there is no link.
            assert found.code_description is None
            assert {each.location.uri for each in found.related_information} == {uri}
            editor.type("train.py", GOOD)
            await editor.codes("train.py")
            editor.type("train.py", "é = '𝄞'; " + BAD)
            await editor.codes("train.py", "GPU302")
            # A text that is half written is told as such, and nothing else.
            editor.type("train.py", BAD + "\nfor")
            await editor.codes("train.py", "GPU001")
            editor.close("train.py")
            await editor.told("train.py", lambda found: not found)

    edit(scenario())


LOADS = """import torch
import torch.distributed as dist


def save(model, path):
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), path)
        dist.barrier()
"""
TRAINS = BAD.replace("import torch\n", "import torch\nfrom saving import save\n", 1) + '\nsave(model, "last.pt")\n'
SAVES = TRAINS.replace("    for x", "    sampler.set_epoch(epoch)\n    for x")
DATA = """from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def loading(dataset):
    sampler = DistributedSampler(dataset)
    return DataLoader(dataset, batch_size=32, sampler=sampler)
"""
begin, end = BAD.index("sampler = "), BAD.index("for epoch")
HEAD = BAD[:begin].replace("import torch\n", "import torch\nfrom data import loading\n", 1)
FROM_DATA = f"{HEAD}loader = loading(dataset)\n{BAD[end:]}"


def test_programs_of_several_files(tmp_path: Path) -> None:
    for name, text in {"helper.py": HELPS, "saving.py": LOADS, "data.py": DATA}.items():
        (tmp_path / name).write_text(text)

    async def scenario() -> None:
        async with editing(tmp_path) as editor:
            # Texts that are not saved are read by others.
            editor.open("train.py", CALLS)
            await editor.codes("train.py")
            editor.open("helper.py", HELPS_NOT)
            await editor.codes("train.py", "GPU302")
            editor.type("helper.py", HELPS)
            await editor.codes("train.py")
            editor.type("helper.py", HELPS_NOT)
            await editor.codes("train.py", "GPU302")
            # What is written counts again.
            editor.close("helper.py")
            await editor.codes("train.py")
            # Findings in other files are shown there, and cleared.
            editor.type("train.py", SAVES)
            (found,) = await editor.told("saving.py", bool)
            assert found.range.start.line == line_of(LOADS, "barrier")
            editor.type("train.py", GOOD)
            await editor.codes("saving.py")
            # What led to a finding may be in another file.
            editor.type("train.py", FROM_DATA)
            (found,) = await editor.told("train.py", bool)
            assert editor.uri("data.py") in {each.location.uri for each in found.related_information}

    edit(scenario())


def endless(doublings: int = 450) -> str:
    """A program that takes seconds to follow."""
    body = "".join(
        f"    if flag({n}):\n        model = wrap{n}(model)\n        loss = model(x) + loss\n" for n in range(doublings)
    )
    wraps = "".join(
        f"def wrap{n}(m):\n    return DistributedDataParallel(m) if flag({n}) else m\n" for n in range(doublings)
    )
    return BAD.replace("for epoch", f"{wraps}\nloss = 0\nfor again in range(100):\n    x = again\n{body}\nfor epoch", 1)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell what a process has computed")
def test_a_newer_text_ends_the_older_analysis(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with editing(tmp_path) as editor:
            editor.open("train.py", BAD)
            await editor.codes("train.py", "GPU302")
            worker = child_of(editor.client._server.pid)
            before = computed(worker)
            editor.type("train.py", endless())
            await editor.told("train.py")
            alone = computed(worker) - before
            assert alone > 0.5, "this program must take long, or the test shows nothing"
            before = computed(worker)
            editor.type("train.py", endless() + "#")
            await until(lambda: computed(worker) > before + 0.1 or None)
            editor.type("train.py", GOOD)
            await editor.codes("train.py")
            # In the same process, which was not ended.
            assert computed(child_of(editor.client._server.pid)) - before < alone / 2
            assert child_of(editor.client._server.pid) == worker
            assert editor.versions[editor.uri("train.py")] - 1 not in {each.version for each in editor.published}

    edit(scenario())


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def computed(pid: int) -> float:
    """Seconds of processor time."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_settings_of_the_project_are_watched(tmp_path: Path) -> None:
    from lsprotocol import types

    async def changed(editor: Editor, text: str) -> None:
        (tmp_path / "pyproject.toml").write_text(text)
        event = types.FileEvent(editor.uri("pyproject.toml"), types.FileChangeType.Changed)
        editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))

    async def scenario() -> None:
        async with editing(tmp_path) as editor:
            editor.open("train.py", BAD)
            await editor.codes("train.py", "GPU302")
            await changed(editor, '[tool.gpudoctor]\nignore = ["GPU302"]\n')
            await editor.codes("train.py")
            await changed(editor, "[tool.gpudoctor]\nignored = []\n")
            await until(lambda: editor.client.messages or None)
            assert "unknown key `ignored`" in editor.client.messages[-1].message
            await changed(editor, "")
            await editor.codes("train.py", "GPU302")
            # Those of the editor.
            settings = {"gpudoctor": {"ignore": ["GPU3"]}}
            editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))
            await editor.codes("train.py")

    edit(scenario())
