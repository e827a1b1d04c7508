"""Launch files on the command line: what is found, where, in which formats, and what silences and mends it."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gpudoctor import cli
from gpudoctor.lint.launchfiles.launched import Launched
from gpudoctor.lint.launchfiles.reading import read_launch_file

BAD = "torchrun --nproc_per_node=2 python train.py\n"
PROGRAM = """import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    model(torch.randn(2, 2, device="cuda")).sum().backward()
    optimizer.step()
"""


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lay(**files: str) -> None:
    for name, text in files.items():
        path = Path(name.replace("__", "."))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    cli.main(["lint", "--no-cache", "--output-format=json", *arguments])
    return json.loads(capsys.readouterr().out)["findings"]  # type: ignore[no-any-return]


def codes(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    return [f"{each['path']}:{each['line']} {each['code']}" for each in found(capsys, *arguments)]


def test_a_folder_is_searched_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    lay(run__sh=BAD, Makefile=f"t:\n\t{BAD}", notes__txt=BAD, build__sh="make\n", data__json='{"python": 1}')
    Path(".vscode").mkdir()
    Path(".vscode/launch.json").write_text(
        '{"configurations": [{"type": "python", "module": "torch.distributed.run",'
        ' "args": ["--nproc_per_node=2", "python", "t.py"]}]}'
    )
    assert codes(capsys, ".") == [".vscode/launch.json:1 GPU424", "Makefile:2 GPU424", "run.sh:1 GPU424"]
    cli.main(["lint", "--no-cache", "."])
    assert "in 3 files" in capsys.readouterr().err


def test_a_script_without_an_ending_is_known_by_its_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    lay(start=f"#!/usr/bin/env bash\n{BAD}")
    assert codes(capsys, "start") == ["start:2 GPU424"]
    assert not codes(capsys, ".")
    Path("start").chmod(0o755)
    assert codes(capsys, ".") == ["start:2 GPU424"]


def test_what_a_named_file_starts_is_linted_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    lay(run__sh="torchrun --nproc_per_node=2 train.py\n", train__py=PROGRAM, other__py=PROGRAM)
    assert {each.partition(":")[0] for each in codes(capsys, "run.sh")} == {"train.py"}


@pytest.mark.parametrize(
    "text",
    [
        f"{BAD.strip()}  # gpudoctor: ignore[GPU424]\n",
        f"# gpudoctor: ignore[torchrun-starts-python]\n{BAD}",
        "# gpudoctor: ignore[GPU424]\ntorchrun \\\n  --nnodes=1 --nproc_per_node=2 \\\n  python train.py\n",
        "torchrun --nproc_per_node=2 \\\n  python train.py  # gpudoctor: ignore\n",
        f"# gpudoctor: ignore-file[GPU424]\n\n\n{BAD}",
        f"{BAD.strip()}  # noqa: GPU424\n",
    ],
)
def test_comments_silence(capsys: pytest.CaptureFixture[str], text: str) -> None:
    lay(run__sh=text)
    assert codes(capsys, "run.sh") == []


def test_comments_of_other_formats_silence(capsys: pytest.CaptureFixture[str]) -> None:
    lay(
        Dockerfile='FROM a\n# gpudoctor: ignore[GPU424]\nCMD ["torchrun", "python", "t.py"]\n',
        compose__yaml="services:\n  a:\n    command: torchrun python t.py  # gpudoctor: ignore[GPU424]\n",
    )
    assert codes(capsys, "--select=GPU424", "Dockerfile", "compose.yaml") == []


def test_a_comment_of_no_use_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    lay(run__sh="torchrun --nproc_per_node=2 t.py  # gpudoctor: ignore[GPU424]\nls # gpudoctor: ignore[GPU999]\n")
    assert codes(capsys, "--extend-select=GPU002", "run.sh") == ["run.sh:1 GPU002", "run.sh:2 GPU003"]


@pytest.mark.parametrize("form", ["full", "concise", "json", "sarif", "github", "gitlab", "rdjson", "junit"])
def test_all_formats_have_them(capsys: pytest.CaptureFixture[str], form: str) -> None:
    lay(run__sh=f"set -e\n{BAD}")
    assert cli.main(["lint", "--no-cache", f"--output-format={form}", "run.sh"]) == 1
    shown = capsys.readouterr().out
    assert "GPU424" in shown
    assert re.search(r"run\.sh", shown)


def test_a_fix_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    lay(run__sh=BAD, flags__sh="torchrun train.py --nproc_per_node 2\n")
    assert [each["fix"]["safety"] for each in found(capsys, "run.sh", "flags.sh")] == ["unsafe", "safe"]
    cli.main(["lint", "--no-cache", "--fix", "run.sh", "flags.sh"])
    assert Path("run.sh").read_text() == "torchrun --nproc_per_node=2 train.py\n"
    assert Path("flags.sh").read_text() == "torchrun train.py --nproc_per_node 2\n"
    cli.main(["lint", "--no-cache", "--fix", "--unsafe-fixes", "flags.sh"])
    assert Path("flags.sh").read_text() == "torchrun --nproc_per_node 2 train.py\n"


def test_what_is_typed_is_read(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert codes(capsys, "--stdin-filename=run.sh", "-") == ["run.sh:1 GPU424"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.sh", f'echo "it\'s"\n{BAD}'),
        ("more.sh", "torchrun \\\n  --nproc_per_node=2 python t.py \\\n  --x\n"),
        ("Makefile", f"t:\n\t{BAD}"),
        ("Dockerfile", 'FROM a\nCMD ["torchrun", \\\n "--nproc_per_node=2", "python", "t.py"]\n'),
        ("compose.yaml", "services:\n  a:\n    command: torchrun --nproc_per_node=1 python t.py\n"),
    ],
)
def test_comments_are_written(capsys: pytest.CaptureFixture[str], name: str, text: str) -> None:
    Path(name).write_text(text)
    assert [each["code"] for each in found(capsys, name)] == ["GPU424"]
    assert cli.main(["lint", "--no-cache", "--add-ignores", name]) == 0
    capsys.readouterr()
    assert codes(capsys, name) == []


def test_a_baseline_knows_them(capsys: pytest.CaptureFixture[str]) -> None:
    lay(run__sh=BAD)
    cli.main(["lint", "--no-cache", "--baseline", "known.json", "--update-baseline", "run.sh"])
    capsys.readouterr()
    assert codes(capsys, "--baseline", "known.json", "run.sh") == []
    lay(run__sh=BAD + BAD.replace("2", "4"))
    assert codes(capsys, "--baseline", "known.json", "run.sh") == ["run.sh:2 GPU424"]


def test_patterns_leave_them_out(capsys: pytest.CaptureFixture[str]) -> None:
    lay(run__sh=BAD)
    assert codes(capsys, "--exclude=*.sh", ".") == []
    Path("gpudoctor.toml").write_text('[per-file-ignores]\n"*.sh" = ["GPU4"]\n')
    assert codes(capsys, ".") == []


def test_a_program_is_known_from_an_earlier_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(Path("kept").absolute()))
    lay(run__sh="python train.py\n", train__py=PROGRAM)
    for _ in range(2):
        cli.main(["lint", "--output-format=json", "--select=GPU422", "run.sh"])
        [seen] = json.loads(capsys.readouterr().out)["findings"]
        assert seen["related"][0]["path"] == "train.py"


SWITCHED = """import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
parser.add_argument("--sync", choices=["ddp", "none"], default="ddp")
parser.add_argument("--steps", type=int, default=10)
args = parser.parse_args()
if args.distributed:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.Linear(2, 2).cuda()
if args.distributed and args.sync == "ddp":
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(args.steps):
    optimizer.zero_grad()
    model(torch.randn(2, 2, device="cuda")).sum().backward()
    optimizer.step()
"""


def test_a_program_is_read_as_its_launch_file_starts_it(capsys: pytest.CaptureFixture[str]) -> None:
    lay(train__py=SWITCHED, run__sh="torchrun --nproc_per_node=8 train.py --distributed --sync none --steps 4\n")
    assert codes(capsys, "--select=GPU101", "train.py") == []
    [seen] = found(capsys, "--select=GPU101", ".")
    assert (seen["path"], seen["severity"]) == ("train.py", "error")
    assert seen["started_by"] == "when `run.sh` starts it"
    cli.main(["lint", "--no-cache", "--select=GPU101", "run.sh"])
    assert "This happens when `run.sh` starts it." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("copied", "name", "known"),
    [
        ("COPY src/ /app/", "train.py", True),
        ("WORKDIR /app\nADD setup.py src .", "train.py", True),
        ("COPY src/train.py /app/run.py", "run.py", True),
        ("COPY --from=build src/ /app/", "train.py", False),
        ("COPY src/ /other/", "train.py", False),
    ],
)
def test_a_container_starts_what_its_image_copies(
    capsys: pytest.CaptureFixture[str], copied: str, name: str, known: bool
) -> None:
    command = f"[torchrun, --nproc_per_node=8, /app/{name}, --distributed, --sync, none]"
    lay(**{"src/train.py": SWITCHED, "docker/Dockerfile": f"FROM x\n{copied}\n"})
    lay(job__yaml=f"apiVersion: v1\nkind: Pod\nspec: {{containers: [{{command: {command}}}]}}\n")
    started = [each["started_by"] for each in found(capsys, "--select=GPU101", ".")]
    assert started == (["when `job.yaml` starts it"] if known else [])


@pytest.mark.parametrize(("words", "said"), [("--resume a.pt", True), ("", False), ("$MORE", True)])
def test_what_an_option_leads_to_is_not_said_of_a_launch_without_it(
    capsys: pytest.CaptureFixture[str], words: str, said: bool
) -> None:
    told = 'p = argparse.ArgumentParser()\np.add_argument("--resume")\nargs = p.parse_args()\n'
    load = "if args.resume:\n    model.load_state_dict(torch.load(args.resume))\noptimizer ="
    lay(run__sh=f"torchrun --nproc_per_node=2 train.py {words}\n")
    lay(train__py=f"import argparse\n{PROGRAM}".replace("model =", f"{told}model =").replace("optimizer =", load))
    [seen] = found(capsys, "--select=GPU209", ".")
    assert seen["started_by"] == ("when `run.sh` starts it" if said else "")


def test_only_what_all_launch_files_say_counts(capsys: pytest.CaptureFixture[str]) -> None:
    lay(train__py=SWITCHED, run__sh="torchrun --nproc_per_node=8 train.py --distributed --sync none\n")
    lay(other__sh="torchrun --nproc_per_node=8 train.py --distributed\n")
    assert codes(capsys, "--select=GPU101", ".") == []
    lay(other__sh="torchrun --nproc_per_node=8 train.py --sync=none --distributed $MORE\n")
    [seen] = found(capsys, "--select=GPU101", ".")
    assert seen["started_by"] == "when `other.sh` and 1 more start it"


def test_what_was_found_as_another_file_starts_it_is_not_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(Path("kept").absolute()))
    lay(train__py=SWITCHED)
    for sync, expected in (("none", 1), ("ddp", 0), ("none", 1)):
        lay(run__sh=f"torchrun --nproc_per_node=8 train.py --distributed --sync {sync}\n")
        cli.main(["lint", "--output-format=json", "--select=GPU101", "run.sh"])
        assert len(json.loads(capsys.readouterr().out)["findings"]) == expected


CHOSEN = """
from dataclasses import dataclass
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

@dataclass
class Options:
    model: str = "gpt2"
    whole: bool = False

options, settings = HfArgumentParser((Options, TrainingArguments)).parse_args_into_dataclasses()
if options.whole or "70B" not in options.model:
    model = AutoModelForCausalLM.from_pretrained(options.model)
else:
    model = AutoModelForCausalLM.from_pretrained(options.model, device_map="auto")
Trainer(model, settings).train()
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--model llama-70B", ["train.py:14 GPU909"]),
        ("--model=llama-70B --whole False", ["train.py:14 GPU909"]),
        ("--model llama-70B --whole", []),
        ("--model llama-70B --whole True", []),
        ("--model llama-7B", []),
    ],
)
def test_options_that_are_fields_of_a_class(
    capsys: pytest.CaptureFixture[str], words: str, expected: list[str]
) -> None:
    lay(run__sh=f"torchrun --nproc_per_node=2 train.py {words}\n", train__py=CHOSEN)
    # As one process, its Trainer is no reason to take it for several: another file starts those.
    lay(one__sh="python train.py --model llama-70B\n")
    assert codes(capsys, "--select=GPU909", ".") == expected


EPOCHS = """
import argparse
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("-e", "--epochs", type=int, default=10)
args = parser.parse_args()
dist.init_process_group("gloo")
data = TensorDataset(torch.randn(64, 8))
loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(args.epochs):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--epochs 1", []),
        ("--epochs=1", []),
        ("-e 1", []),
        ("--epochs 3", ["train.py:16 GPU302"]),
        ("--epochs $EPOCHS", ["train.py:16 GPU302"]),
        ("--epochs many", ["train.py:16 GPU302"]),
        ("", ["train.py:16 GPU302"]),
    ],
)
def test_numbers_that_the_program_is_given(capsys: pytest.CaptureFixture[str], words: str, expected: list[str]) -> None:
    lay(run__sh=f"torchrun --nproc_per_node=2 train.py {words}\n", train__py=EPOCHS)
    assert codes(capsys, "--select=GPU302", "run.sh") == expected


ALONE = """
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=8, shuffle=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "several"),
    [
        ("torchrun --nproc_per_node=2 train.py", True),
        ("torchrun --nproc-per-node gpu train.py", True),
        ("accelerate launch --num_processes 4 train.py", True),
        ("torchrun train.py", False),
        ("torchrun --nproc_per_node=$N train.py", False),
        ("python train.py", False),
    ],
)
def test_a_program_of_one_process_that_is_started_as_several(
    capsys: pytest.CaptureFixture[str], line: str, several: bool
) -> None:
    lay(run__sh=f"{line}\n", train__py=ALONE)
    here = [each for each in found(capsys, "--select=GPU101,GPU301", "run.sh") if each["path"] == "train.py"]
    assert {each["code"] for each in here} == ({"GPU101", "GPU301"} if several else set())
    assert {each["started_by"] for each in here} == ({"when `run.sh` starts it"} if several else set())
    asked = ["--select=GPU101,GPU301", "--launch=torchrun", "train.py"]
    assert not several or [each["line"] for each in here] == [each["line"] for each in found(capsys, *asked)]


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ("torchrun --standalone --nproc-per-node gpu train.py", True),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node=2 train.py", True),
        ("CUDA_VISIBLE_DEVICES=0,1,2 torchrun --nproc-per-node=2 train.py", False),
        ("torchrun --nnodes=2 --nproc-per-node gpu train.py", False),
        ("torchrun --nproc-per-node=2 train.py", False),
    ],
)
def test_a_process_for_each_gpu_of_one_machine(capsys: pytest.CaptureFixture[str], line: str, same: bool) -> None:
    counted = "import torch\ntorch.distributed.init_process_group('nccl', world_size=torch.cuda.device_count())\n"
    lay(run__sh=f"{line}\n", train__py=counted)
    assert codes(capsys, "--select=GPU408", ".") == ([] if same else ["train.py:2 GPU408"])


@pytest.mark.parametrize("nodes", [1, 2])
def test_on_several_machines_each_has_a_writer(capsys: pytest.CaptureFixture[str], nodes: int) -> None:
    save = "if int(os.environ['LOCAL_RANK']) == 0:\n    torch.save(model.module.state_dict(), '/shared/model.pt')\n"
    lay(
        run__sh=f"torchrun --nnodes={nodes} --nproc_per_node=4 --node_rank=$N --master_addr=a train.py\n",
        train__py=PROGRAM + save,
    )
    assert [each for each in codes(capsys, ".") if "GPU602" in each] == (["train.py:13 GPU602"] if nodes > 1 else [])


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_framework_may_be_told_of_several_machines(capsys: pytest.CaptureFixture[str], nodes: int) -> None:
    module = (
        "import lightning, torch\n\nclass Net(lightning.LightningModule):\n"
        "    def __init__(self):\n        super().__init__()\n        self.layer = torch.nn.Linear(1, 1)\n"
        "    def training_step(self, batch, index):\n        return self.layer(batch[0]).mean()\n"
        "    def configure_optimizers(self):\n        return torch.optim.SGD(self.parameters(), lr=0.1)\n"
        "    def on_fit_end(self):\n        if self.local_rank == 0:\n"
        "            torch.save(self.layer.state_dict(), 'layer.pt')\n\n"
    )
    fit = f"lightning.Trainer(devices=4, num_nodes={nodes}, accelerator='gpu').fit(Net(), [])\n"
    lay(train__py=module + fit)
    assert [each for each in codes(capsys, ".") if "GPU602" in each] == (["train.py:13 GPU602"] if nodes > 1 else [])


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_gpus_of_one_machine_are_not_those_of_all(capsys: pytest.CaptureFixture[str], nodes: int) -> None:
    told = 'rank=int(os.environ["SLURM_PROCID"]), world_size=torch.cuda.device_count()'
    asked = f"#!/bin/bash\n#SBATCH --nodes={nodes}\n#SBATCH --ntasks-per-node=8\n"
    lay(job__sh=f"{asked}srun python train.py\n", train__py=PROGRAM.replace('"nccl"', f'"nccl", {told}'))
    [seen] = found(capsys, "--select=GPU408", ".")
    assert (seen["severity"], "on the 2 nodes of this launch" in seen["message"]) == (
        ("error", True) if nodes > 1 else ("warning", False)
    )


@pytest.mark.parametrize(
    ("line", "alike"),
    [
        ("torchrun --nproc_per_node=4 train.py", True),
        ("srun --ntasks=4 bash -c 'python train.py --gpu $SLURM_LOCALID'", False),
        ("export RANK=$SLURM_PROCID; srun --ntasks=4 python train.py --gpu $SLURM_LOCALID", False),
        ("python train.py", False),
    ],
)
@pytest.mark.parametrize("device", ["args.gpu", "f'cuda:{args.gpu}'"])
def test_a_launcher_gives_all_processes_the_same_options(
    capsys: pytest.CaptureFixture[str], line: str, device: str, alike: bool
) -> None:
    option = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--gpu', type=int, default=0)\n"
    asked = PROGRAM.replace(".cuda()", f".cuda({device})").replace('"cuda"', device)
    lay(run__sh=f"{line}\n", train__py=f"{option}args = parser.parse_args()\n{asked}")
    assert codes(capsys, "--select=GPU204", ".") == (["train.py:11 GPU204"] if alike else [])


def cell(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def test_notebooks_start_programs_that_they_have_written(capsys: pytest.CaptureFixture[str]) -> None:
    cells = [
        f"%%writefile train.py\n{PROGRAM}",
        "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'\nN = 2",
        "!export CUDA_VISIBLE_DEVICES=0,1\n!torchrun --nproc_per_node=$N train.py",
        "%env CUDA_VISIBLE_DEVICES=0,1\n!torchrun \\\n  --nproc_per_node=$N train.py # two\n!python train.py",
        "%%bash\nexport CUDA_VISIBLE_DEVICES=0\ntorchrun --nproc_per_node=2 /kaggle/working/train.py",
        "!torchrun --nproc_per_node={N} train.py && torchrun train.py --nproc_per_node={N}",
    ]
    Path("a.ipynb").write_text(json.dumps({"cells": [cell(each) for each in cells], "nbformat": 4, "metadata": {}}))
    told = found(capsys, "--select=GPU421,GPU422,GPU423", ".")
    assert [(each["cell"], each["line"], each["code"]) for each in told] == [
        (3, 2, "GPU423"),
        (4, 4, "GPU422"),
        (5, 3, "GPU423"),
        (6, 1, "GPU421"),
    ]


TRAINER = """
import os
from datasets import load_dataset
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
several = int(os.environ.get("WORLD_SIZE", "1")) > 1
data = load_dataset("imdb", split="train").shuffle()
model = AutoModelForCausalLM.from_pretrained("gpt2")
Trainer(model, TrainingArguments("out"), train_dataset=data).train()
"""


@pytest.mark.parametrize(("line", "named"), [("torchrun --nproc-per-node=2 train.py", 1), ("python train.py", 0)])
def test_what_needs_several_processes_does_not_happen_to_one(
    capsys: pytest.CaptureFixture[str], line: str, named: int
) -> None:
    lay(run__sh=f"{line}\n", train__py=TRAINER)
    [seen] = found(capsys, "--select=GPU308", ".")
    assert seen["started_by"] == ("when `run.sh` starts it" if named else "")


COUNTED = """
import argparse
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--distributed", action="store_true")
args = parser.parse_args()
if args.distributed:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.Linear(2, 2).cuda()
if args.distributed and 64 // dist.get_world_size() < 16:
    model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    model(torch.randn(2, 2, device="cuda")).sum().backward()
    optimizer.step()
"""


def test_launch_files_that_disagree_are_each_followed(capsys: pytest.CaptureFixture[str]) -> None:
    lay(train__py=COUNTED, run__sh="torchrun --nproc_per_node=8 train.py --distributed\n")
    lay(few__sh="torchrun --nproc_per_node=4 train.py --distributed\n", job__sbatch="#!/bin/bash\npython train.py\n")
    # As eight processes it wraps its model, as four it does not, and as one it need not.
    [seen] = found(capsys, "--select=GPU101", ".")
    assert (seen["path"], seen["started_by"]) == ("train.py", "when `few.sh` starts it")
    cli.main(["lint", "--no-cache", "--select=GPU101", "."])
    told = " ".join("".join(capsys.readouterr()).split())
    assert "`run.sh` starts 8 processes with `--distributed`" in told
    assert "`few.sh` starts 4 processes with `--distributed`" in told
    assert "`job.sbatch` starts one process: followed in each of these ways" in told
    cli.main(["lint", "--no-cache", "--output-format=json", "--select=GPU101", "."])
    ways = {(each["world"], each["started"]) for each in json.loads(capsys.readouterr().out)["programs"]}
    assert len(ways) == 3
    assert ("single", "`job.sbatch` starts one process") in ways


def test_starts_in_one_file_are_told_apart_by_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    both = "torchrun --nproc_per_node=8 train.py --distributed\ntorchrun --nproc_per_node=4 train.py --distributed\n"
    lay(train__py=COUNTED, run__sh=both)
    [seen] = found(capsys, "--select=GPU101", ".")
    assert seen["started_by"] == "when `run.sh:2` starts it"


@pytest.mark.parametrize(("count", "expected"), [(4, ["train.py:5 GPU911"]), (8, []), ("$N", [])])
def test_the_batch_of_deepspeed_for_as_many_processes(
    capsys: pytest.CaptureFixture[str], count: object, expected: list[str]
) -> None:
    config = '{"train_batch_size": 128, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2}'
    made = f"net = nn.Linear(32, 4)\ndeepspeed.initialize(model=net, config={config})\n"
    program = f"\nimport deepspeed\nfrom torch import nn\n{made}"
    lay(train__py=program, run__sh=f"deepspeed --num_gpus {count} train.py\n")
    assert codes(capsys, "--select=GPU911", "run.sh") == expected


@pytest.mark.parametrize(("number", "named"), [(8, ["train.py:2 GPU911"]), (4, [])])
def test_the_batch_of_deepspeed_for_as_many_as_the_settings_of_accelerate_say(
    capsys: pytest.CaptureFixture[str], number: int, named: list[str]
) -> None:
    settings = (
        f"distributed_type: DEEPSPEED\ndeepspeed_config: {{deepspeed_config_file: ds.json}}\nnum_processes: {number}\n"
    )
    engine = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2, "train_batch_size": 32}
    lay(run__sh="accelerate launch --config_file all.yaml train.py\n", all__yaml=settings, ds__json=json.dumps(engine))
    lay(train__py="from accelerate import Accelerator\naccelerator = Accelerator(gradient_accumulation_steps=2)\n")
    assert codes(capsys, "--select=GPU911", ".") == named


def test_a_group_may_be_smaller_than_the_world(capsys: pytest.CaptureFixture[str]) -> None:
    ended = "\nassert dist.get_world_size({}) == 8\nmodel = torch.nn"
    launch = "torchrun --nproc_per_node=4 train.py --distributed\n"
    for group, expected in (("", ["run.sh:1 GPU430"]), ("dist.new_group([0, 1])", [])):
        lay(train__py=COUNTED.replace("\nmodel = torch.nn", ended.format(group)), run__sh=launch)
        assert codes(capsys, "--select=GPU430", "run.sh") == expected


@pytest.mark.parametrize(("asked", "several"), [("", True), ("#SBATCH --ntasks-per-node=1\n", False)])
def test_one_task_of_slurm_is_one_process(asked: str, several: bool, tmp_path: Path) -> None:
    lay(train__py=PROGRAM)
    text = f"#!/bin/bash\n{asked}srun python train.py\n"
    started = Launched((read_launch_file(str(tmp_path / "job.sh"), "job.sh", text),)).started
    assert [(each.several, each.alone) for each in started[str(tmp_path / "train.py")]] == [(several, True)]


def test_a_script_may_lie_deep_in_the_project(tmp_path: Path) -> None:
    lay(train__py=PROGRAM)
    folder = tmp_path / "scripts" / "train" / "qm9" / "large"
    started = Launched((read_launch_file(str(folder / "run.sh"), "run.sh", "python train.py --lr 0.1\n"),)).started
    assert [each.given for each in started[str(tmp_path / "train.py")]] == [{"lr": "0.1"}]


BY_HAND = """import sys

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
kinds, at = [], 1
while at < len(sys.argv):
    if sys.argv[at] == "--kind":
        at += 1
        kinds.append(sys.argv[at])
    at += 1
if "saved" in kinds:
    torch.save({}, "model.pt")
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--fast --kind saved", ["train.py:14 GPU601"]),
        ('--kind ${KIND:-saved} "$@"', ["train.py:14 GPU601"]),
        ("--kind other", []),
        ("--kind $KIND", ["train.py:14 GPU601"]),
    ],
)
def test_words_that_a_program_reads_itself(given: str, expected: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    lay(train__py=BY_HAND, run__sh=f"torchrun --nproc_per_node=4 train.py {given}\n")
    assert codes(capsys, "--select=GPU601", ".") == expected


def test_a_switch_that_ends_the_only_start_early_is_not_all(capsys: pytest.CaptureFixture[str]) -> None:
    options = """import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--statistics", action="store_true")
if parser.parse_args().statistics:
    raise SystemExit
"""
    lay(train__py=options + PROGRAM, run__sh="torchrun --nproc_per_node=2 train.py --statistics\n")
    cli.main(["lint", "--no-cache", "--output-format=json", "."])
    [program] = json.loads(capsys.readouterr().out)["programs"]
    assert (program["followed"], program["training_loops"]) == ("whole", 1)


SUBMITS = """import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

parser = argparse.ArgumentParser()
parser.add_argument("--submit", action="store_true")
parser.add_argument("--keep", action="store_true")
args = parser.parse_args()
gpu = int(os.environ.get("LOCAL_RANK", 0))
model = torch.nn.Linear(2, 2).cuda(gpu)
if "RANK" in os.environ:
    torch.cuda.set_device(gpu)
    dist.init_process_group("nccl")
    model = DDP(model, device_ids=[gpu])
if args.submit:
    torch.save(model.state_dict(), "answers.pt")
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        optimizer.zero_grad()
        model(torch.randn(2, 2, device=gpu)).sum().backward()
        optimizer.step()
        if args.keep:
            torch.save(model.state_dict(), "kept.pt")
"""


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ("python train.py --submit --keep", [27]),
        ("torchrun --nproc_per_node=4 train.py --submit", [19, 27]),
        ("python train.py", [19, 27]),
    ],
    ids=["of one process", "of several, too", "of none"],
)
def test_what_launch_files_let_one_process_do_alone(
    capsys: pytest.CaptureFixture[str], one: str, expected: list[int]
) -> None:
    lay(train__py=SUBMITS, all__sh="torchrun --nproc_per_node=8 train.py\n", one__sh=f"{one}\n")
    assert [each["line"] for each in found(capsys, "--select=GPU601", ".")] == expected


TOOL = """import os

import torch.distributed as dist

if "RANK" in os.environ:
    dist.init_process_group("gloo")
with open("table.txt", "w") as file:
    file.write("done")
"""


@pytest.mark.parametrize(
    ("start", "expected"),
    [("python tool.py", []), ("torchrun --nproc_per_node=4 tool.py", [8])],
    ids=["one process", "several"],
)
def test_a_tool_that_is_started_as_one_process(
    capsys: pytest.CaptureFixture[str], start: str, expected: list[int]
) -> None:
    lay(tool__py=TOOL, all__sh=f"{start}\n")
    assert [each["line"] for each in found(capsys, "--select=GPU601", ".")] == expected


def test_what_several_processes_do_is_not_said_of_a_file_that_starts_one(capsys: pytest.CaptureFixture[str]) -> None:
    lay(train__py=SUBMITS, one__sh="python train.py\n")
    (each, *_) = found(capsys, "--select=GPU601", ".")
    assert (each["world"], each["started_by"]) == ("torchrun", "")


TUNED = """from datasets import load_from_disk
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
Trainer(model, TrainingArguments("out"), train_dataset=load_from_disk("x")).train()
"""


@pytest.mark.parametrize(("shown", "expected"), [("0,1,2,3", ["tune.py:5 GPU952"]), ("0", []), ("$GPUS", [])])
def test_a_trainer_that_is_shown_several_gpus(
    capsys: pytest.CaptureFixture[str], shown: str, expected: list[str]
) -> None:
    lay(tune__py=TUNED, run__sh=f"export CUDA_VISIBLE_DEVICES={shown}\npython tune.py\n")
    assert [each for each in codes(capsys, ".") if each.endswith("GPU952")] == expected
