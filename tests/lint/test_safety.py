"""Lint of a project that means harm: nothing of it is executed, and nothing is read that does not belong to it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

OURS = Path(__file__).resolve().parent.parent.parent

# Told before anything happens, and whatever catches the exception: the interpreter's own eyes.
WATCHED = """
import atexit, json, os, runpy, sys
seen = []
watching = [False]
def watch(event, arguments):
    if watching[0]:
        seen.append((event, [os.fsdecode(each) if isinstance(each, (str, bytes, os.PathLike)) else repr(each)
                             for each in arguments]))
sys.addaudithook(watch)
arguments = sys.argv[2:]
def tell():
    watching[0] = False
    with open(arguments[0], "w") as file:
        json.dump([seen, path], file)
atexit.register(tell)
sys.argv[1:] = arguments[1:]
path = sys.path[1:]
sys.path[0] = os.getcwd()  # as `python -m` does
watching[0] = True
runpy.run_module("gpudoctor", run_name="__main__", alter_sys=True)
"""

HARM = """
open("{mark}", "w").close()
import os
os.system("touch {mark}")
"""

TRAIN = """
import sys, os, subprocess, socket, json, pickle, importlib
sys.path.insert(0, "/etc")
sys.path.insert(0, "{outside}")
sys.path.append("..")
sys.path.append(os.path.join(os.path.dirname(__file__), "..", "outside"))
sys.path.append("../" * 20 + "etc")
import torch
import torch.distributed as dist
import secret, outside.secret, linked, folder.secret, torch_secret
from . import secret
from .. import secret
from ..outside import secret
from ...outside.secret import *
from ................................................................ import etc
from linked import *
import helper
from helper import *
__import__("os").system("touch {mark}")
importlib.import_module("helper")
importlib.import_module("..outside.secret", __name__)
exec(open("{outside}/secret.py").read())
exec("import os; os.system('touch {mark}')")
eval("open('{mark}', 'w')")
config = json.load(open("{outside}/config.json"))
pickle.load(open("{outside}/config.json", "rb"))
torch.load("{outside}/config.json")
subprocess.run(["touch", "{mark}"])
socket.create_connection(("127.0.0.1", 9))
with open("{outside}/secret.py") as file:
    compile(file.read(), "x", "exec")
class Meta(type):
    def __new__(cls, *args):
        os.system("touch {mark}")
class Net(torch.nn.Module, metaclass=Meta):
    def __del__(self):
        os.system("touch {mark}")
if __name__ == "__main__":
    dist.init_process_group("nccl")
    torch.nn.parallel.DistributedDataParallel(Net())
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project full of traps, and `outside` beside it, which is none of its business."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    mark = tmp_path / "harm"
    outside.mkdir()
    for name in ("secret.py", "torch_secret.py", "config.json"):
        (outside / name).write_text("import torch\npassword = 'hunter2'\n")
    (project / "pkg").mkdir(parents=True)
    (project / "pyproject.toml").write_text("[tool.gpudoctor]\nselect = ['ALL']\n")
    harm = HARM.format(mark=mark)
    (project / "train.py").write_text(TRAIN.format(mark=mark, outside=outside))
    (project / "pkg" / "train.py").write_text(TRAIN.format(mark=mark, outside=outside))
    (project / "helper.py").write_text(f"import torch\n{harm}import train\n")
    # Python itself runs some of these when it finds them, and would run the others if we imported what they shadow.
    for name in (
        "sitecustomize",
        "usercustomize",
        "conftest",
        "setup",
        "torch",
        "json",
        "signal",
        "resource",
        "platform",
    ):
        (project / f"{name}.py").write_text(harm)
    for name in ("tokenize", "difflib", "tomllib", "tomli", "rich", "libcst", "unicodedata", "gpudoctor_rules"):
        (project / f"{name}.py").write_text(harm)
    (project / "pkg" / "__init__.py").write_text(harm)
    (project / "evil.egg-info").mkdir()
    (project / "evil.egg-info" / "entry_points.txt").write_text("[gpudoctor.rules]\nevil = helper\n")
    (project / "evil.pth").write_text(f"import os; os.system('touch {mark}')\n")
    (project / "linked.py").symlink_to(outside / "secret.py")
    (project / "folder").symlink_to(outside)
    (project / "passwd.py").symlink_to("/etc/passwd")
    (project / "loop").symlink_to(".")
    return project


@pytest.mark.parametrize(
    "arguments",
    [["lint", "--no-cache", "."], ["lint", "--no-cache", "train.py", "--output-format=json"], ["plan", "train.py"]],
)
def test_nothing_is_executed_and_nothing_else_is_read(project: Path, tmp_path: Path, arguments: list[str]) -> None:
    journal = tmp_path / "journal.json"
    (tmp_path / "watched.py").write_text(WATCHED)
    command = [sys.executable, "-B", str(tmp_path / "watched.py"), "--", str(journal), *arguments]
    ours = os.pathsep.join([str(OURS), str(OURS / "rules")])
    ended = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=600, env={**os.environ, "PYTHONPATH": ours}
    )
    assert ended.returncode in (0, 1), ended.stderr
    assert not (tmp_path / "harm").exists()
    assert "hunter2" not in ended.stdout + ended.stderr
    events, path = json.loads(journal.read_text())
    homes = [project, OURS, *map(Path, (sys.prefix, sys.base_prefix, *path))]
    assert ("open", str(project / "train.py")) in {(name, given[0]) for name, given in events if given}
    assert not {name for name, given in events if name.startswith(FORBIDDEN) and not _is_renewed(name, given)}
    foreign = sorted({given[0] for name, given in events if name in READING and not _may_be_read(given[0], homes)})
    assert not foreign
    written = [given for name, given in events if name == "open" and "w" in given[1]]
    assert not written


FORBIDDEN = ("subprocess", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.remove", "os.rename", "os.putenv",
             "socket", "ctypes", "pickle", "shutil", "http", "urllib", "code.__new__")  # fmt: skip
READING = ("open", "os.listdir", "os.scandir")


OWN_CODE = {str(OURS / "gpudoctor" / name) for name in ("lint/entries/analyze.py", "record.py")}


def _is_renewed(name: str, given: list[str]) -> bool:
    """Our own functions that are made anew, with the code that they have: one that claims a larger frame, and the
    constructors of records, with the names of the fields."""
    return name == "code.__new__" and given[1] in OWN_CODE


def _may_be_read(shown: str, homes: list[Path]) -> bool:
    # A file that is open already, by its number.
    if shown.isdigit():
        return True
    path = (homes[0] / shown).resolve()
    return any(path.is_relative_to(home.resolve()) for home in homes)
