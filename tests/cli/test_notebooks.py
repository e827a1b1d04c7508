"""Notebooks on the command line: what is found in them, how each format says where, and what fixes write."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpudoctor import cli
from tests.support.notebooks import WRITERS, cell, notebook
from tests.support.sarif_schema import LOG

Lint = Callable[..., tuple[int, str, str]]

SETUP = """\
%matplotlib inline
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset"""
DATA = "data = TensorDataset(torch.randn(8, 2))  # größer\nsampler = RandomSampler(data)"
LOADER = "!nvidia-smi\nloader = DataLoader(data, sampler=sampler, shuffle=True)\nprint(len(loader))"
CELLS = (cell("# Training", "markdown"), SETUP, DATA, LOADER)
FIXED = LOADER.replace(", shuffle=True", "")


@pytest.fixture
def lint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Lint:
    """Lints `train.ipynb` in a folder of its own, or what is named instead."""
    monkeypatch.chdir(tmp_path)

    def call(*options: str, cells: tuple[Any, ...] = CELLS, writer: str = "jupyter") -> tuple[int, str, str]:
        if cells:
            Path("train.ipynb").write_text(notebook(*cells, writer=writer), encoding="utf-8")
        paths = ["train.ipynb"] if all(each.startswith("-") for each in options) else []
        code = cli.main(["lint", "--no-cache", *options, *paths])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


FULL = """\
train.ipynb:cell 4:2:10: error: GPU303 [*] shuffle-with-sampler
  `loader` gets `shuffle=True` and a sampler, which are mutually exclusive:
  every rank ends with
  `ValueError: sampler option is mutually exclusive with shuffle`.

    1 | !nvidia-smi
    2 | loader = DataLoader(data, sampler=sampler, shuffle=True)
      |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    3 | print(len(loader))

  cell 3, line 2: the sampler is made
    2 | sampler = RandomSampler(data)
  help: Leave `shuffle=True` out.

"""


def test_full(lint: Lint) -> None:
    code, out, err = lint("--select=GPU303")
    assert (code, out.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", "|")) == (1, FULL)
    assert err == "Found 1 error in 1 file. Read more: gpudoctor explain GPU303\n[*] 1 fixable with `--fix`.\n"


def test_concise(lint: Lint) -> None:
    _, out, _ = lint("--select=GPU303", "--output-format=concise")
    assert out.startswith("train.ipynb:cell 4:2:10: error: GPU303 [*] shuffle-with-sampler: `loader` gets")


def test_json(lint: Lint) -> None:
    (found,) = json.loads(lint("--select=GPU303", "--output-format=json")[1])["findings"]
    assert [found[key] for key in ("path", "cell", "line", "column", "end_line")] == ["train.ipynb", 4, 2, 10, 2]
    assert [found["related"][0][key] for key in ("path", "cell", "line")] == ["train.ipynb", 3, 2]
    (edit,) = found["fix"]["edits"]
    assert [edit[key] for key in ("path", "cell", "line", "column", "end_column")] == ["train.ipynb", 4, 2, 42, 56]


@pytest.mark.parametrize("writer", WRITERS)
def test_services_are_told_lines_of_the_file(lint: Lint, writer: str) -> None:
    options = ("--select=GPU303", "--output-format")
    _, out, _ = lint(*options[:1], f"{options[1]}=sarif", writer=writer)
    log = json.loads(out)
    jsonschema.Draft7Validator(LOG).validate(log)
    (result,) = log["runs"][0]["results"]
    (where,) = result["locations"]
    lines = Path("train.ipynb").read_text(encoding="utf-8").split("\n")
    row = where["physicalLocation"]["region"]["startLine"]
    assert "DataLoader(data" in lines[row - 1]
    assert where["logicalLocations"] == [{"name": "cell 4", "kind": "module"}]
    assert result["message"]["text"].startswith("Cell 4, line 2: `loader` gets")
    assert "fixes" not in result
    _, out, _ = lint(*options[:1], f"{options[1]}=github", writer=writer)
    assert f"file=train.ipynb,line={row},endLine={row},title=GPU303" in out
    assert "train.ipynb:cell 4:2:10: `loader`" in out
    (issue,) = json.loads(lint(*options[:1], f"{options[1]}=gitlab", writer=writer)[1])
    assert issue["location"] == {"path": "train.ipynb", "lines": {"begin": row, "end": row}}
    assert "cell 4, line 2:" in issue["description"]
    (diagnostic,) = json.loads(lint(*options[:1], f"{options[1]}=rdjson", writer=writer)[1])["diagnostics"]
    assert diagnostic["location"] == {
        "path": "train.ipynb",
        "range": {"start": {"line": row}, "end": {"line": row}},
    }
    assert "suggestions" not in diagnostic


@pytest.mark.parametrize("writer", WRITERS)
def test_fix(lint: Lint, writer: str) -> None:
    code, out, err = lint("--select=GPU303", "--fix", writer=writer)
    assert (code, out) == (0, "")
    assert "train.ipynb: 1 fixed: GPU303 shuffle-with-sampler" in err
    assert Path("train.ipynb").read_text(encoding="utf-8") == notebook(*CELLS[:3], FIXED, writer=writer)


@pytest.mark.parametrize("above", ["", "print(1)"])
def test_the_last_line_of_a_cell_is_taken_out(lint: Lint, above: str) -> None:
    model = "import torch\nmodel = torch.nn.Linear(8, 1).cuda()\noptimizer = torch.optim.SGD(model.parameters())"
    train = "for _ in range(9):\n    model(torch.ones(4, 8).cuda()).sum().backward()\n    optimizer.step()"
    switch = f"{above}\ntorch.autograd.set_detect_anomaly(True)".lstrip()
    lint("--select=GPU802", "--fix", "--unsafe-fixes", cells=(model, switch, train))
    assert Path("train.ipynb").read_text(encoding="utf-8") == notebook(model, above, train)


DIFF = """\
--- a/train.ipynb:cell 4
+++ b/train.ipynb:cell 4
@@ -1,3 +1,3 @@
 !nvidia-smi
-loader = DataLoader(data, sampler=sampler, shuffle=True)
+loader = DataLoader(data, sampler=sampler)
 print(len(loader))
"""


def test_diff_shows_cells(lint: Lint) -> None:
    code, out, err = lint("--select=GPU303", "--diff")
    assert (code, out) == (1, DIFF)
    assert "1 would be fixed" in err
    assert Path("train.ipynb").read_text(encoding="utf-8") == notebook(*CELLS)


SEED = """\
import torch
model = torch.nn.Linear(2, 2)"""
TRAIN = """\
%%time
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model.cuda()
total = 0
for epoch in range(3):
    for batch in torch.utils.data.DataLoader(torch.randn(64, 2), batch_size=8):
        loss = model(batch.cuda()).sum()
        loss.backward()
        optimizer.step()
        total += loss.item()"""


def test_comments_are_added_and_silence(lint: Lint) -> None:
    code, _, _ = lint("--add-ignores", cells=(SEED, TRAIN))
    after = Path("train.ipynb").read_text(encoding="utf-8")
    assert code == 0
    assert "# gpudoctor: ignore[" in after
    json.loads(after)
    assert lint(cells=())[:2] == (0, "")
    assert Path("train.ipynb").read_text(encoding="utf-8") == after


def test_comments_of_no_use(lint: Lint) -> None:
    cells = (SEED, "print(\n    model\n)  # gpudoctor: ignore[GPU303]", "x = 1  # gpudoctor: ignore[GPU30]")
    options = ("--extend-select=GPU002", "--output-format=concise", "--fail-on=never")
    _, out, _ = lint(*options, cells=cells)
    assert "train.ipynb:cell 2:3:24: info: GPU002" in out
    assert "on lines 1 to 3" in out
    assert lint("--extend-select=GPU002", "--fix", cells=cells)[0] == 0
    assert Path("train.ipynb").read_text(encoding="utf-8") == notebook(SEED, "print(\n    model\n)", "x = 1")


def test_unknown_codes_in_comments(lint: Lint) -> None:
    _, out, _ = lint("--output-format=concise", cells=(SEED, "print(1)\nprint(2)  # gpudoctor: ignore[GPU9999]"))
    assert "train.ipynb:cell 2:2:31: warning: GPU003" in out


@pytest.mark.slow
def test_a_broken_cell_and_the_others(lint: Lint) -> None:
    code, out, _ = lint("--output-format=concise", cells=(SETUP, DATA, "to do:\n  ask Anna", LOADER))
    assert code == 1
    assert [line.split(": ")[0].rsplit(":", 1)[0] for line in out.splitlines()] == [
        "train.ipynb:cell 3:1",
        "train.ipynb:cell 4:2",
    ]
    assert "This cell cannot be read: " in out
    _, out, err = lint("--select=GPU303", "--output-format=concise", cells=(SETUP, DATA, "to do:\n  x y", LOADER))
    assert out.count("\n") == 1
    assert "gpudoctor: train.ipynb:cell 3: line 1: " in err


def test_a_broken_notebook(lint: Lint) -> None:
    text = notebook(*CELLS).replace('"outputs": [', '"outputs": ', 1)
    Path("train.ipynb").write_text(text, encoding="utf-8")
    code, out, _ = lint("--output-format=concise", cells=())
    assert code == 1
    assert out.startswith("train.ipynb:")
    assert "error: GPU001 unreadable-file: This file cannot be read: the notebook's JSON is broken" in out
    assert "cell" not in out.split("GPU001")[0]


def test_folders_and_checkpoints(lint: Lint) -> None:
    lint("--select=GPU303")
    text = Path("train.ipynb").read_text(encoding="utf-8")
    Path(".ipynb_checkpoints").mkdir()
    Path(".ipynb_checkpoints/train-checkpoint.ipynb").write_text(text, encoding="utf-8")
    Path("other.ipynb").write_text(notebook("import torch", metadata={"language_info": {"name": "R"}}), "utf-8")
    _, out, _ = lint("--select=GPU303", "--output-format=concise", ".")
    assert [line.split(":")[0] for line in out.splitlines()] == ["train.ipynb"]
    _, out, _ = lint("--select=GPU303", "--output-format=concise", "--exclude=*.ipynb", ".")
    assert out == ""
    named = ".ipynb_checkpoints/train-checkpoint.ipynb"
    assert cli.main(["lint", "--no-cache", "--select=GPU303", named]) == 1


def test_standard_input(lint: Lint, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import io
    import sys

    data = notebook(*CELLS).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert cli.main(["lint", "--select=GPU303", "--output-format=concise", "--stdin-filename=a.ipynb", "-"]) == 1
    assert capsys.readouterr().out.startswith("a.ipynb:cell 4:2:10: error: GPU303")


def test_helpers_are_read_through_a_notebook_and_on_their_own(lint: Lint) -> None:
    Path("data.py").write_text(
        "from torch.utils.data import DataLoader, RandomSampler\n"
        "def make(data):\n"
        "    return DataLoader(data, sampler=RandomSampler(data), shuffle=True)\n",
        encoding="utf-8",
    )
    alone, _, _ = lint("--select=GPU303", "data.py", cells=())
    _, out, _ = lint(
        "--select=GPU303", "--output-format=concise", ".", cells=("import data\nx = data.make([1])\nprint(x)",)
    )
    assert (alone, out.count("\n")) == (1, 1)
    assert out.startswith("data.py:3:")


def test_baseline_outlives_a_cell_above(lint: Lint) -> None:
    assert lint("--select=GPU303", "--baseline=known.json")[:2] == (0, "")
    assert lint("--select=GPU303", "--baseline=known.json", cells=("print('new')", *CELLS))[:2] == (0, "")
    assert lint("--select=GPU303", "--baseline=known.json", cells=(*CELLS, LOADER))[0] == 1


@pytest.mark.slow
def test_cache(lint: Lint, capsys: pytest.CaptureFixture[str]) -> None:
    lint("--select=GPU303", cells=(*CELLS, "to do"))
    outs = set()
    for _ in range(2):
        assert cli.main(["lint", "--output-format=json", "train.ipynb"]) == 1
        outs.add(capsys.readouterr().out)
    (out,) = outs
    assert {each["cell"] for each in json.loads(out)["findings"]} == {4, 5}


def git(*arguments: str) -> None:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)


def test_since_counts_lines_of_the_file(lint: Lint) -> None:
    git("init", "-q")
    lint("--select=GPU303")
    git("add", ".")
    git("commit", "-qm", "first")
    assert lint("--select=GPU303", "--since=HEAD")[:2] == (0, "")
    # Another cell, then a line that led there, then the line itself.
    assert lint("--select=GPU303", "--since=HEAD", cells=(*CELLS, "print(1)"))[:2] == (0, "")
    moved = (*CELLS[:2], DATA.replace("RandomSampler(data)", "RandomSampler(data, True)"), LOADER)
    assert lint("--select=GPU303", "--since=HEAD", cells=moved)[0] == 1
    assert lint("--select=GPU303", "--since=HEAD", cells=(*CELLS[:3], LOADER.replace("data,", "data, 2,")))[0] == 1


def test_plan(lint: Lint, capsys: pytest.CaptureFixture[str]) -> None:
    lint("--select=GPU303")
    assert cli.main(["plan", "train.ipynb"]) == 0
    out = capsys.readouterr().out
    assert "train.ipynb, when one process sees several GPUs" in out
    assert "train.ipynb:cell 4:2  loader `loader`" in out
    assert "get_ipython" not in out


SPAWNING = (
    "import torch, torch.distributed as dist, torch.multiprocessing as mp",
    """\
def work(rank, n):
    dist.init_process_group('nccl', init_method='tcp://127.0.0.1:29500', rank=rank, world_size=n)
    torch.cuda.set_device(rank)
    dist.destroy_process_group()""",
)


def test_a_new_process_does_not_know_a_function_of_a_cell(lint: Lint) -> None:
    """Seen with ipykernel 7 and torch 2.13: `Can't get attribute 'work' on <module '__main__' (built-in)>`."""
    code, out, _ = lint("--output-format=concise", cells=(*SPAWNING, "mp.spawn(work, args=(2,), nprocs=2)"))
    assert (code, out.count("\n")) == (1, 1)
    assert out.startswith("train.ipynb:cell 3:1:1: error: GPU404 spawn-arguments: The function stands in a cell")
    Path("workers.py").write_text(SPAWNING[0] + "\n" + SPAWNING[1] + "\n", encoding="utf-8")
    moved = ("import torch.multiprocessing as mp\nfrom workers import work", "mp.spawn(work, args=(2,), nprocs=2)")
    assert lint("--output-format=concise", cells=moved)[:2] == (0, "")
    forked = (*SPAWNING, "mp.start_processes(work, args=(2,), nprocs=2, start_method='fork')")
    assert lint("--output-format=concise", cells=forked)[:2] == (0, "")


LAUNCHED = (
    """\
import os
import torch, torch.distributed as dist
from accelerate import notebook_launcher
model = torch.nn.Linear(2, 2)""",
    """\
def train(name):
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    ddp = torch.nn.parallel.DistributedDataParallel(model.cuda(), device_ids=[local_rank])
    if int(os.environ["RANK"]) == 0:
        torch.save(ddp.module.state_dict(), name)
    dist.destroy_process_group()""",
    "notebook_launcher(train, args=('m.pt',), num_processes=2)",
)


def test_processes_of_a_notebooks_launcher(lint: Lint, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint("--output-format=concise", cells=LAUNCHED)[:2] == (0, "")
    assert cli.main(["plan", "train.ipynb"]) == 0
    plan = " ".join(capsys.readouterr().out.split())
    assert "notebook_launcher of `train`, args=('m.pt'" in plan
    assert "torch.save, path='m.pt' (rank 0 only)" in plan
    everywhere = LAUNCHED[1].replace('if int(os.environ["RANK"]) == 0:', "if True:")
    _, out, _ = lint("--output-format=concise", cells=(LAUNCHED[0], everywhere, LAUNCHED[2]))
    assert out.startswith("train.ipynb:cell 2:7:9: error: GPU601 ")


def test_cuda_before_a_notebooks_launcher(lint: Lint) -> None:
    _, out, _ = lint(cells=(*LAUNCHED[:2], "model.cuda()", LAUNCHED[2]))
    assert out.startswith("train.ipynb:cell 3:1:1: error: GPU406 ")
    assert "cell 4, line 1: the workers are forked here" in out
    assert "restart the notebook's kernel" in " ".join(out.split())
    alone = LAUNCHED[2].replace("=2", "=1")
    assert "GPU406" not in lint(cells=(*LAUNCHED[:2], "model.cuda()", alone))[1]


def test_nobody_starts_a_notebook_with_torchrun(lint: Lint) -> None:
    cells = (SEED, "import torch.distributed as dist\ndist.init_process_group('gloo')\ntorch.save(model, 'm.pt')")
    assert "GPU601" not in lint("--output-format=concise", cells=cells)[1]
    assert "GPU601" in lint("--output-format=concise", "--launch=torchrun", cells=cells)[1]


WRITTEN = """\
%%writefile train.py
import os
import torch, torch.distributed as dist
from model import Net

def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = torch.nn.parallel.DistributedDataParallel(Net().cuda(), device_ids=[local_rank])
    torch.save(model.module.state_dict(), "m.pt")
    dist.destroy_process_group()

if __name__ == "__main__":
    main()"""
MODEL = "%%writefile model.py\nimport torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x"
GUARDED = WRITTEN.replace("    torch.save(", "    if dist.get_rank() == 0:\n        torch.save(")
LAUNCH = "!torchrun --nproc-per-node 2 train.py"


def test_programs_that_cells_write(lint: Lint) -> None:
    cells = (SETUP, WRITTEN, MODEL, LAUNCH)
    code, out, _ = lint(cells=cells)
    assert code == 1
    assert out.startswith("train.ipynb:cell 2:11:5: error: GPU601 ")
    assert "11 \N{BOX DRAWINGS LIGHT VERTICAL} torch.save(model.module" in out
    assert "  line 15: called from here" in out
    assert lint("--fix", "--unsafe-fixes", cells=cells)[:2] == (0, "")
    assert Path("train.ipynb").read_text(encoding="utf-8") == notebook(SETUP, GUARDED, MODEL, LAUNCH)
    assert not Path("train.py").exists()
    # The file that is there is the one that runs.
    Path("train.py").write_text("import torch", encoding="utf-8")
    assert lint(cells=cells)[:2] == (0, "")


def test_comments_in_programs_that_cells_write(lint: Lint) -> None:
    assert lint("--add-ignores", cells=(SETUP, WRITTEN, MODEL, LAUNCH))[0] == 0
    silenced = WRITTEN.replace('"m.pt")', '"m.pt")  # gpudoctor: ignore[GPU601]')
    assert Path("train.ipynb").read_text(encoding="utf-8") == notebook(SETUP, silenced, MODEL, LAUNCH)
    assert lint(cells=())[:2] == (0, "")


@pytest.mark.slow
def test_a_broken_program_that_a_cell_writes(lint: Lint) -> None:
    _, out, _ = lint("--output-format=concise", cells=(SETUP, f"{WRITTEN}\n  (", LAUNCH))
    assert out.startswith("train.ipynb:cell 2:1")
    assert "GPU001 unreadable-file" in out


def test_variables_that_are_set_too_late(lint: Lint) -> None:
    start, late = "import torch\nmodel = torch.nn.Linear(2, 2).cuda()", "%env CUDA_VISIBLE_DEVICES=1"
    cells = (start, late, "model(torch.randn(2, 2).cuda())")
    _, out, _ = lint("--select=GPU210", "--output-format=concise", cells=cells)
    assert out.startswith("train.ipynb:cell 2:1:1: error: GPU210 ")
    assert lint("--select=GPU210", cells=(late, start))[1] == ""


def test_a_helper_of_the_training_that_a_notebook_uses(lint: Lint) -> None:
    """What it does for several processes stands behind a test of settings, which nobody can read here."""
    load = (
        "import torch, torch.distributed as dist\nfrom settings import create\n"
        "def load(settings):\n    model = torch.nn.Linear(4, 4)\n    if settings.distributed_run:\n"
        "        for tensor in model.state_dict().values():\n            dist.broadcast(tensor, 0)\n    return model"
    )
    cells = (load, "model = load(create()).cuda()", "print(model(torch.zeros(8, 4).cuda()))")
    assert lint("--output-format=concise", cells=cells)[:2] == (0, "")


def test_notebooks_that_write_files_of_the_same_name(lint: Lint) -> None:
    Path("other.ipynb").write_text(notebook("print(1)", GUARDED, MODEL, LAUNCH), encoding="utf-8")
    Path("third.ipynb").write_text(notebook("print(1)\nprint(2)", "print(3)", WRITTEN, LAUNCH), encoding="utf-8")
    _, out, _ = lint("--output-format=concise", ".", cells=(SETUP, WRITTEN, MODEL, LAUNCH))
    places = [line.partition(" save")[0] for line in out.splitlines()]
    assert places == ["third.ipynb:cell 3:11:5: error: GPU601 [!]", "train.ipynb:cell 2:11:5: error: GPU601 [!]"]


@pytest.mark.parametrize("marked", [True, False])
def test_a_program_of_a_cell_imports_what_lies_beside_the_notebook(lint: Lint, marked: bool) -> None:
    if marked:
        Path("pyproject.toml").touch()
    helper = WRITTEN.removeprefix("%%writefile train.py\n").replace("from model import Net", "Net = torch.nn.ReLU")
    Path("helper.py").write_text(helper.partition("if __name__")[0], encoding="utf-8")
    start = '%%writefile train.py\nimport torch\nfrom helper import main\n\nif __name__ == "__main__":\n    main()'
    _, out, _ = lint("--select=GPU601", cells=(SETUP, start, LAUNCH))
    assert out.startswith("helper.py:10:5: error: GPU601")
    assert "  train.ipynb:cell 2:6: called from here" in out
