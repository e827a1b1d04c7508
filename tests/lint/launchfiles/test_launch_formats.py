"""Files that hold commands or settings, and are no shell scripts."""

import pytest

from gpudoctor.lint.launchfiles.launch_file import LaunchFile
from gpudoctor.lint.launchfiles.reading import read_launch_file
from tests.support.launches import shown

SKY = "num_nodes: 2\nresources: {accelerators: 'A100:4'}\nrun: |\n  torchrun --n=$SKYPILOT_NUM_NODES"
ESTIMATOR = "from sagemaker.pytorch import PyTorch\nPyTorch(entry_point='t.py', %s)"
STEP = "on: [push]\njobs:\n  a:\n    runs-on: %s\n    steps:\n    - run: torchrun --n=${{ matrix.n }} t.py"
TASK = "version: '3'\nvars: {N: '{{.M}}', M: 2}\ntasks:\n  t:\n    %s"
EDITOR = ".vscode/launch.json"
EDITED = '{"configurations": [{"type": "debugpy", %s},]}'
POD = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - "


def read(name: str, text: str) -> LaunchFile:
    return read_launch_file(f"/work/{name}", name, text)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("Dockerfile", "FROM a\nCMD torchrun --nnodes=1 \\\n  t.py", "torchrun nnodes=1 | t.py"),
        ("Dockerfile", 'FROM a\nENTRYPOINT ["torchrun"]\nCMD ["t.py", "a b"]', "torchrun | t.py a b"),
        ("Dockerfile", 'FROM a\nCMD ["python", "a.py"]\nFROM b\nCMD ["python", "b.py"]', "python | b.py"),
        ("Dockerfile", 'FROM a\nRUN <<EOF\nCMD ["python", "x.py"]\nEOF\nCMD ["python", "b.py"]', "python | b.py"),
        ("Makefile", "N := 4\nt:\n\t@torchrun --nnodes=$(N) t.py $(A) $$B", "torchrun nnodes=4 | t.py $A? $B?"),
        ("Makefile", "N ?= 4\ntrain:\n\ttorchrun --nproc_per_node=$(N) t.py", "torchrun nproc-per-node=$N | t.py"),
        ("Makefile", "train: data ; torchrun t.py\nA := b:c", "torchrun | t.py"),
        ("Makefile", "P ?= python\nt:\n\t$(P) -m torch.distributed.run t.py", "torchrun | t.py"),
        ("Makefile", "N = 4\nt: N = 2\nt:\n\ttorchrun --nnodes=$(N) t.py", "torchrun nnodes=2 | t.py"),
        ("Makefile", "t:\n\ttorchrun --n=$(words $(subst x, ,$(A))) t.py", "torchrun n=$_make | t.py"),
        ("compose.yaml", "services:\n  a:\n    command: torchrun t.py --x", "torchrun | t.py --x"),
        ("compose.yaml", "services:\n  a:\n    command: [sh, -c, torchrun --n=$$N t.py]", "torchrun n=$N | t.py"),
        ("compose.yaml", "services:\n  a:\n    command: [torchrun, '--n=${N:-2}', t.py]", "torchrun n=$N | t.py"),
        ("Taskfile.yml", TASK % "cmds: [{cmd: 'torchrun --n={{.N}} t.py {{.X}}'}]", "torchrun n=2 | t.py $X?"),
        ("Taskfile.yml", TASK % "cmd: torchrun --n={{.P | default 4}} t.py", "torchrun n=$P | t.py"),
        ("nightly.yml", STEP % "[self-hosted, gpu]", "torchrun n=$matrix_n | t.py"),
        ("dvc.yaml", "stages:\n  t:\n    cmd: torchrun --n=${a.n} t.py", "torchrun n=$a_n | t.py"),
        ("train.yaml", f"{SKY} t.py", "torchrun n=2 | t.py"),
        (".gitlab-ci.yml", "stages: [a]\nt: {tags: [gpu], script: [A=1, torchrun t.py $A]}", "torchrun | t.py 1"),
        ("argo.yaml", "apiVersion: v1\nkind: Workflow\na: {container: {command: [torchrun, t.py]}}", "torchrun | t.py"),
        ("compose.yaml", "services:\n  a:\n    entrypoint: [python, -u]\n    command: [t.py]", "python u= | t.py"),
        ("compose.yaml", "services:\n  a:\n    command: >\n      torchrun\n      t.py", "torchrun | t.py"),
        ("pod.yaml", f"{POD}command: [sh, -c]\n    args: [torchrun t.py]", "torchrun | t.py"),
        ("pod.yaml", f"{POD}env: [{{name: N, value: '2'}}]\n    args: [python, t.py, $(N)]", "python | t.py 2"),
        ("pod.yaml", f"{POD}command: [torchrun, --nnodes=$(N), t.py]", "torchrun nnodes=$N | t.py"),
        ("justfile", 'n := "4"\nt *a:\n    @torchrun --nnodes={{n}} t.py {{a}}', "torchrun nnodes=4 | t.py $a?"),
        ("justfile", 't n="2":\n    #!/bin/bash\n    A=1\n    torchrun --n={{n}} t.py $A', "torchrun n=$n | t.py 1"),
        ("justfile", 'n := env("N", "2")\nt: x\n  torchrun \\\n    --nnodes={{n}} t.py', "torchrun nnodes=$N | t.py"),
        ("pyproject.toml", '[tool.poe.tasks]\nt = "torchrun t.py --x"', "torchrun | t.py --x"),
        ("pyproject.toml", '[tool.pixi.tasks]\nt = { cmd = ["torchrun", "t.py"] }', "torchrun | t.py"),
        ("pixi.toml", '[tasks.t]\ncmd = "torchrun t.py"\nenv = { A = "1" }', "torchrun | t.py"),
        ("tox.ini", "[testenv:t]\ncommands =\n    pytest\n    torchrun t.py {posargs}", "torchrun | t.py $posargs?"),
        ("Procfile", "train: torchrun t.py", "torchrun | t.py"),
        ("Snakefile", "rule t:\n  shell:\n    \"torchrun --n={threads} \"\n    \"t.py\"", "torchrun n=$threads | t.py"),
        ("t.nf", "process t {\nscript:\n'''\ntorchrun --n=${params.n} t.py\n'''\n}", "torchrun n=$params_n | t.py"),
        ("Jenkinsfile", "steps { sh 'torchrun t.py' }", "torchrun | t.py"),
        ("go.py", "import subprocess\nc = ['torchrun'] + ['t.py']\nsubprocess.run(c + rest)", "torchrun | t.py $_?"),
        ("go.py", "import os\nfor n in (1, 2):\n    os.system(f'torchrun --n={n} t.py')", "torchrun n=$n | t.py"),
        ("go.py", "def go(n, *a):\n    call(f'torchrun --n={n} t.py'.split())\ngo(2)", "torchrun n=2 | t.py"),
        ("go.py", "c = ['torchrun']\nc.append('t.py')\nc += ['--x']\nPopen(' '.join(c))", "torchrun | t.py --x"),
        ("go.py", "T = f'''#!/bin/bash\n#SBATCH -N 2\ntorchrun --n=$SLURM_NNODES t.py\n'''", "torchrun n=2 | t.py"),
        ("go.py", "p.add_argument('--n', default=2)\nrun(f'torchrun --n={a.n} t.py')", "torchrun n=$n | t.py"),
        ("go.py", "g = 0, 1\nrun('torchrun --n=' + str(len(g)) + ' t.py')", "torchrun n=2 | t.py"),
        ("go.py", "g = [0, 1]\nrun(['torchrun', 't.py', ','.join(map(str, g))])", "torchrun | t.py 0,1"),
        ("go.py", "run(f\"torchrun t.py {','.join(str(i) for i in range(3))}\")", "torchrun | t.py 0,1,2"),
        ("go.py", "run('torchrun --n=%d t.py' % (9 // int('4')) + ' A b'.lower())", "torchrun n=2 | t.py a b"),
        ("go.py", "n = a + 1\nrun(f'torchrun --n={n} t.py ' + '-'.replace('-', z))", "torchrun n=$_ | t.py $_?"),
        ("Makefile", "N := $(shell echo 0 1 | wc -w)\nt:\n\ttorchrun --n=$(N) t.py", "torchrun n=2 | t.py"),
        ("job.py", "import submitit\ne.update_parameters(tasks_per_node=2)\ne.submit(f)", "python | job.py"),
        ("job.py", ESTIMATOR % "hyperparameters={'lr': 1}", "python | t.py --lr 1"),
        ("job.py", ESTIMATOR % "hyperparameters=chosen, distribution={}", "python | t.py $_?"),
        (
            "job.py",
            ESTIMATOR % "instance_type='ml.p3.8xlarge', instance_count=2, distribution={'torch_distributed': on}",
            "torchrun nnodes=2 nproc-per-node=4 rdzv-endpoint=$_ | t.py",
        ),
        ("noxfile.py", "import nox\ndef t(s):\n    s.run('torchrun', 't.py', *s.posargs)", "torchrun | t.py $_?"),
        ("crontab", "N=2\n0 3 * * * torchrun --n=$N t.py >> log", "torchrun n=2 | t.py"),
        ("t.service", "[Service]\nEnvironment=N=2\nExecStart=-torchrun --n=${N} \\\n  t.py", "torchrun n=2 | t.py"),
        ("supervisord.conf", "[program:t]\ncommand=torchrun t.py\nautostart=true", "torchrun | t.py"),
        ("train.sub", "executable = torchrun\narguments = --n=2 t.py\nqueue", "torchrun n=2 | t.py"),
        ("mise.toml", '[tasks.t]\nrun = "torchrun t.py"', "torchrun | t.py"),
        (".circleci/config.yml", "version: 2\njobs: {a: {steps: [checkout, run: torchrun t.py]}}", "torchrun | t.py"),
        ("azure-pipelines.yml", "pool: gpu\nsteps:\n- script: torchrun t.py", "torchrun | t.py"),
        ("job.yml", "command: torchrun --n=${{inputs.n}} t.py\ncompute: gpu", "torchrun n=$inputs_n | t.py"),
        ("job.yaml", "workerPoolSpecs:\n- containerSpec: {command: [torchrun], args: [t.py]}", "torchrun | t.py"),
        ("det.yaml", "entrypoint: [torchrun, t.py]\nresources: {slots_per_trial: 2}", "torchrun | t.py"),
        (".dstack.yml", "type: task\nnodes: 2\ncommands: [torchrun --n=$DSTACK_NODES_NUM t.py]", "torchrun n=2 | t.py"),
        ("b.yaml", "version: v2\ntasks: [{image: {}, command: [torchrun], arguments: [t.py]}]", "torchrun | t.py"),
        ("MLproject", "entry_points: {main: {command: 'torchrun t.py --lr {lr}'}}", "torchrun | t.py --lr $lr?"),
        ("s.yaml", "program: t.py\nmethod: grid\ncommand: [torchrun, '${program}', '${args}']", "torchrun | t.py"),
        ("map.yaml", "apiVersion: v1\nkind: ConfigMap\ndata:\n  t.sh: |\n    torchrun t.py", "torchrun | t.py"),
        (".vscode/tasks.json", '{"tasks": [{"command": "torchrun", "args": ["t.py"]}]}', "torchrun | t.py"),
        ("Dockerfile", "FROM a\nARG N=2\nENV M=$N\nCMD torchrun --n=$M t.py", "torchrun n=2 | t.py"),
        ("Makefile", "define go\n\ttorchrun --n=$(1) t.py\nendef\nt:\n\t$(call go,2)", "torchrun n=2 | t.py"),
        (EDITOR, EDITED % '"program": "t.py", "args": ["--x",], // c\n', "python | t.py --x"),
        (EDITOR, EDITED % '"module": "torch.distributed.run", "args": ["t.py"]', "torchrun | t.py"),
    ],
)  # fmt: skip
def test_the_commands_of_a_format(name: str, text: str, expected: str) -> None:
    [found] = read(name, text).launches
    assert shown(found) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "- 1\n- 2"),
        ("a.yaml", "services: [1, 2]"),
        ("ci.yml", STEP % "ubuntu-latest"),
        ("ci.yml", STEP % "${{ matrix.os }}"),
        (".gitlab-ci.yml", "t: {script: [torchrun t.py]}"),
        ("a.yaml", "{{ template }}"),
        ("a.yaml", "a: &a [b, b]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"),
        ("a.json", '{"train": '),
        ("compose.yaml", "services:\n  a:\n    image: x"),
        ("Makefile", "all:\n\tgcc -o train train.c"),
        ("Dockerfile", "FROM a\nRUN python train.py"),
        ("pyproject.toml", '[project.scripts]\ntorchrun = "t:main"\n[tool.poetry.scripts]\nt = "torchrun t:main"'),
        ("pyproject.toml", "[tool.poe.tasks\nt = 'torchrun t.py'"),
        ("justfile", "t:\n    #!/usr/bin/env python\n    torchrun = 1"),
        ("go.py", "import os\nprint('torchrun t.py')\nos.remove('torchrun t.py')"),
        ("go.py", "import os\nos.system('torchrun t.py'"),
        ("job.py", ESTIMATOR % "distribution=asked"),
        ("job.py", "import submitit\ne.update_parameters(cpus_per_task=4)\ne.submit(f)"),
        ("job.py", ESTIMATOR % "**shared"),
    ],
)
def test_what_starts_nothing(name: str, text: str) -> None:
    found = read(name, text)
    assert not found.launches
    assert not found.settings


def test_what_an_editor_starts_at_once() -> None:
    each = ", ".join(f'{{"name": "{name}", "type": "debugpy", "program": "{name}.py"}}' for name in "abc")
    text = f'{{"configurations": [{each}], "compounds": [{{"name": "x", "configurations": ["a", "c"]}}]}}'
    a, b, c = read(EDITOR, text).launches
    assert (a.background, b.background, c.background) == (True, False, True)
    assert a.waits == c.waits != b.waits


def test_a_nest_of_aliases_is_not_unfolded() -> None:
    nest = "services:\n  a0: &a0 [x, x]\n" + "".join(f"  a{n}: &a{n} [{f'*a{n - 1}, ' * 9}]\n" for n in range(1, 12))
    assert not read("compose.yaml", nest).launches


def test_shared_memory_of_containers() -> None:
    def of(name: str, text: str) -> str | None:
        [found] = read(name, text).launches
        return found.container.shared_memory

    assert of("run.sh", "docker run image torchrun t.py") == ""
    assert of("run.sh", "docker run --shm-size=8g image torchrun t.py") == "8g"
    assert of("run.sh", "docker run -v /dev/shm:/dev/shm image torchrun t.py") == "mounted"
    assert of("run.sh", "docker run $MORE image torchrun t.py") is None
    assert of("compose.yaml", "services:\n  a:\n    command: python t.py\n    ipc: host") == "host"
    assert of("compose.yaml", "services:\n  a:\n    extends: b\n    command: python t.py") is None


def test_settings_are_told_by_their_keys() -> None:
    [accelerate] = read("cfg.yaml", "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  a: b").settings
    assert (accelerate.of, accelerate.number("num_processes"), accelerate.text("fsdp_config.a")) == (
        "accelerate",
        8,
        "b",
    )
    [deepspeed] = read("ds.json", '{\n\t"train_batch_size": "auto",\n\t"zero_optimization": {"stage": 2}}').settings
    assert (deepspeed.of, deepspeed.number("train_batch_size")) == ("deepspeed", None)
    assert str(deepspeed.values["zero_optimization.stage"].at) == "ds.json:3:33"
