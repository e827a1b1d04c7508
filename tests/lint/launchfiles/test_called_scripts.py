"""Scripts that launch files source and call: what they set counts, and what they start is started by the caller."""

from pathlib import Path

import pytest

from tests.lint.launchfiles.test_launch_files import PROGRAM, codes, lay


@pytest.fixture(autouse=True)
def _in_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TRAIN = "#!/bin/bash\ntorchrun --nnodes=1 --nproc-per-node=${1:-8} --master-port=29510 train.py\n"


@pytest.mark.parametrize(
    "caller",
    ["bash train.sh 4", "./train.sh 4", "nohup bash -x ./train.sh 4", "go() { bash train.sh $1; }; go 4"],
)
def test_a_called_script_is_started_as_its_caller_does(capsys: pytest.CaptureFixture[str], caller: str) -> None:
    lay(train__py=PROGRAM, train__sh=TRAIN, run__sh=f"export CUDA_VISIBLE_DEVICES=0,1\n{caller}\n")
    assert codes(capsys, "--select=GPU423", ".") == ["run.sh:1 GPU423"]
    # Of itself it says nothing of the GPUs.
    assert codes(capsys, "--select=GPU423", "train.sh") == []


def test_what_a_caller_adds_comes_together(capsys: pytest.CaptureFixture[str]) -> None:
    lay(
        train__py=PROGRAM,
        train__sh=TRAIN,
        job__sh="#!/bin/bash\n#SBATCH --ntasks-per-node=8\nsrun bash train.sh\n",
        sweep__sh="for s in 1 2; do ./train.sh 2 & done; wait\n",
    )
    assert codes(capsys, "--select=GPU425,GPU426", ".") == ["train.sh:2 GPU425", "train.sh:2 GPU426"]


@pytest.mark.parametrize("options", ["-N 2", "-N 2 --export=ALL,N=4", "--nodes=2 --gres=gpu:4"])
def test_a_batch_file_is_told_more_by_who_submits_it(capsys: pytest.CaptureFixture[str], options: str) -> None:
    job = "#!/bin/bash\n#SBATCH --nodes=1\nsrun torchrun --nnodes=3 --nproc-per-node=$N $ROOT/train.py $1\n"
    lay(train__py=PROGRAM, job__sh=job, submit__sh=f"for lr in 1 2; do sbatch {options} job.sh $lr; done\n")
    assert "job.sh:3 GPU427" in codes(capsys, "--select=GPU427", ".")


CHART = """apiVersion: batch/v1
kind: Job
metadata:
  {{- include "labels" . | nindent 2 }}
spec:
  containers:
  - command: [torchrun, --nproc-per-node=4, train.py]
    resources:
      {{- toYaml .Values.resources | nindent 6 }}
"""


def test_a_chart_is_filled_in_with_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    Path("chart/templates").mkdir(parents=True)
    Path("chart/values.yaml").write_text("resources: {limits: {nvidia.com/gpu: 2}}\n")
    Path("chart/templates/job.yaml").write_text(CHART)
    lay(train__py=PROGRAM)
    assert codes(capsys, "--select=GPU423", ".") == ["chart/templates/job.yaml:7 GPU423"]


def test_a_sourced_script_sets_what_follows(capsys: pytest.CaptureFixture[str]) -> None:
    Path("lib").mkdir()
    Path("lib/common.sh").write_text(
        'N=4\nexport CUDA_VISIBLE_DEVICES=0,1\ngo() {\n  torchrun --nproc-per-node="$N" "$@"\n}\n'
    )
    here = 'HERE="$(cd "$(dirname "$0")" && pwd)"\n'
    lay(train__py=PROGRAM, run__sh=f'{here}source "$HERE/lib/common.sh"\ncd "$(dirname "$0")"\ngo train.py\n')
    assert codes(capsys, "--select=GPU423", "run.sh") == ["lib/common.sh:4 GPU423"]


def test_a_script_that_a_quoted_one_sources_sets_what_follows(capsys: pytest.CaptureFixture[str]) -> None:
    job = '#!/bin/bash\n#SBATCH --ntasks=4\nsrun bash -c "\n  source env.sh\n  python train.py\n"\n'
    numbers = "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR=a\n"
    lay(train__py=PROGRAM, env__sh=numbers, job__sh=job)
    assert codes(capsys, "--select=GPU422", ".") == []
    lay(env__sh="export OMP_NUM_THREADS=8\n")
    assert codes(capsys, "--select=GPU422", ".") == ["job.sh:3 GPU422"]


def test_a_variable_is_told_where_it_is_set(capsys: pytest.CaptureFixture[str]) -> None:
    run = "source ./env.sh\ntorchrun --nproc-per-node=2 train.py\n"
    lay(train__py=PROGRAM, env__sh="export CUDA_LAUNCH_BLOCKING=1\n", run__sh=run)
    assert codes(capsys, "--select=GPU432", ".") == ["env.sh:1 GPU432"]
    capsys.readouterr()
    assert codes(capsys, "--select=GPU432", "--fix", "--unsafe-fixes", ".") == []
    assert Path("env.sh").read_text() == ""


def test_an_image_may_start_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    lay(
        train__py=PROGRAM,
        train__sh=TRAIN,
        Dockerfile='FROM a\nENTRYPOINT ["./train.sh"]\n',
        compose__yaml='services:\n  train:\n    build: .\n    gpus: all\n    command: ["4"]\n',
    )
    assert codes(capsys, "--select=GPU431", ".") == ["compose.yaml:2 GPU431"]


@pytest.mark.parametrize(
    ("files", "named", "expected"),
    [
        (
            {
                "Dockerfile": 'FROM a\nENTRYPOINT ["tini", "--", "/app/train.sh"]\n',
                "train.sh": 'exec torchrun --nproc-per-node=${NPROC:-4} "$@"\n',
                "run.sh": "docker build -t x .\ndocker run --gpus '\"device=0,1\"' --ipc=host x /app/train.py\n",
            },
            "run.sh Dockerfile",
            ["run.sh:2 GPU423"],
        ),
        (
            {
                "gpus.env": "# two\nN=4\nexport CUDA_VISIBLE_DEVICES='0,1'\n",
                "compose.yaml": "include: [more/compose.yaml]\n",
                "more/compose.yaml": "services:\n  a:\n    image: x\n    gpus: all\n    env_file: gpus.env\n"
                "    ipc: host\n    command: sh -c 'torchrun --nproc-per-node=$$N train.py'\n",
            },
            "compose.yaml",
            ["more/compose.yaml:7 GPU423"],
        ),
        (
            {
                "justfile": "import 'more/train.just'\nn := '4'\n",
                "more/train.just": "t:\n    CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node={{n}} train.py\n",
            },
            "justfile",
            ["more/train.just:2 GPU423"],
        ),
        (
            {
                "params.yaml": "train: {gpus: 4}\n",
                "dvc.yaml": "stages:\n  a:\n    cmd: >-\n      CUDA_VISIBLE_DEVICES=0,1\n"
                "      torchrun --nproc-per-node=${train.gpus} train.py\n",
            },
            "dvc.yaml",
            ["dvc.yaml:5 GPU423"],
        ),
        (
            {
                "gpus.env": "CUDA_VISIBLE_DEVICES=0\n",
                "Taskfile.yml": "version: '3'\ndotenv: [gpus.env]\ntasks:\n  t: torchrun --nproc-per-node=2 train.py\n",
            },
            "Taskfile.yml",
            ["Taskfile.yml:4 GPU423"],
        ),
        (
            {
                ".env": "CUDA_VISIBLE_DEVICES=0\n",
                "justfile": "set dotenv-load\nt:\n    torchrun --nproc-per-node=2 train.py\n",
            },
            "justfile",
            ["justfile:3 GPU423"],
        ),
        (
            {
                "gpus.env": "export CUDA_VISIBLE_DEVICES=0\n",
                "run.sh": "[ -f gpus.env ] && . ./gpus.env\ntorchrun --nproc-per-node=2 train.py\n",
            },
            "run.sh",
            ["run.sh:2 GPU423"],
        ),
        (
            {
                "common.mk": "N = 2\nexport CUDA_VISIBLE_DEVICES := 0\n",
                "Makefile": "include common.mk\nt:\n\ttorchrun --nproc-per-node=$(N) train.py\n",
            },
            "Makefile",
            ["Makefile:3 GPU423"],
        ),
        (
            {
                "gpus.env": "CUDA_VISIBLE_DEVICES=0\n",
                "run.sh": "docker run --gpus all --env-file gpus.env x torchrun --nproc-per-node=2 train.py\n",
            },
            "run.sh",
            ["run.sh:1 GPU423"],
        ),
        (
            {
                "hosts": "a slots=2\nb slots=2\n",
                "run.sh": "mpirun -np 4 --hostfile hosts torchrun --nproc-per-node=2 train.py\n",
            },
            "run.sh",
            ["run.sh:1 GPU426"],
        ),
        (
            {
                "go.py": "import os, argparse\np = argparse.ArgumentParser()\np.add_argument('--gpus', default='0,1')\n"
                "a = p.parse_args()\nos.environ['CUDA_VISIBLE_DEVICES'] = a.gpus\n"
                "os.system('torchrun --nproc-per-node=4 train.py')\n",
            },
            "go.py",
            ["go.py:6 GPU423"],
        ),
    ],
    ids=["image", "compose", "just", "dvc", "task", "dotenv", "sourced", "make", "docker", "hosts", "python"],
)
def test_what_other_files_say_counts(
    capsys: pytest.CaptureFixture[str], files: dict[str, str], named: str, expected: list[str]
) -> None:
    Path("more").mkdir()
    for name, text in {**files, "train.py": PROGRAM}.items():
        Path(name).write_text(text)
    # A file alone, and all that lies there.
    assert codes(capsys, "--select=GPU423,GPU426", *named.split()) == expected
    assert codes(capsys, "--select=GPU423,GPU426", ".") == expected


def test_scripts_that_call_each_other_end(capsys: pytest.CaptureFixture[str]) -> None:
    lay(
        a__sh="source b.sh\nbash b.sh\ntorchrun python t.py\n",
        b__sh="source a.sh\n. ./b.sh\n./a.sh\n",
    )
    assert codes(capsys, "--select=GPU424", ".") == ["a.sh:3 GPU424"]
