"""Which files start training programs, by their names and a look at their bytes."""

from __future__ import annotations

import os

SHELL, DOCKERFILE, MAKEFILE, YAML, JSON, EDITOR = "shell", "dockerfile", "makefile", "yaml", "json", "editor"
JUSTFILE, TASKS, INI, PYTHON, QUOTED = "justfile", "tasks", "ini", "python", "quoted"
_SHELL_ENDINGS = (
    *(".sh", ".bash", ".zsh", ".ksh", ".sbatch", ".slurm", ".slm", ".job", ".pbs"),
    *(".lsf", ".bsub", ".sge", ".qsub"),
)
_MAKEFILES = frozenset({"makefile", "gnumakefile"})
_JUSTFILES = frozenset({"justfile", ".justfile"})
_NAMED = {"pyproject.toml": TASKS, "pixi.toml": TASKS, "mise.toml": TASKS, "tox.toml": TASKS, "mlproject": YAML} | {
    **dict.fromkeys(("tox.ini", "supervisord.conf", "crontab", "procfile"), INI),
    **dict.fromkeys(("snakefile", "jenkinsfile"), QUOTED),
}
_OF_INI = (".service", ".supervisor.conf", ".supervisord.conf", ".cron", ".crontab", ".sub", ".submit")
_WORDS = (
    *(b"torchrun", b"torch.distributed", b"accelerate", b"deepspeed", b"python", b"srun", b"mpirun", b"horovodrun"),
    *(b"composer", b"fabric run", b"docker run", b"torchx", b"colossalai", b"lightning run"),
)
_OF_SETTINGS = (b"distributed_type", b"train_batch_size", b"train_micro_batch_size", b"zero_optimization")
_OF_SERVICES = (
    *(b"driver: nvidia", b"gpus:", b"shm_size:", b"ipc:", b"extends:", b"capabilities: [gpu]", b"/dev/shm"),
    b"environment:",
)
_DESCRIBING = (b"services:", b"containers:", b"container:", b"TrainJob", b"RayJob", b"ConfigMap", b"source:")
_RUNNING = (
    b"tasks:",
    b"cmd:",
    b"run:",
    b"script:",
    b"command:",
    b"commands:",
    b"entrypoint:",
    b"containerSpec:",
    b"program:",
)
_PROGRAMS = (b".py", b" -m ", b".sh", b"torchrun", b"accelerate launch", b"deepspeed")
"""What a runner's file names: not the `setup-python` that every workflow has."""
_OF_TASKS = (b"tasks]", b"tasks.", b"scripts]", b"scripts.")
MAX_BYTES = 256 * 1024
"""A larger file is data."""


def launch_kind(path: str, head: bytes = b"") -> str:
    """What a launch file is by its name, or by its first line; empty for any other file."""
    folder, name = os.path.split(path)
    low = name.lower()
    if low.endswith(_SHELL_ENDINGS):
        return SHELL
    if low.startswith(("dockerfile", "containerfile")) or low.endswith((".dockerfile", ".containerfile")):
        return "" if low.endswith(".py") else DOCKERFILE
    if low in _MAKEFILES or low.endswith(".mk"):
        return MAKEFILE
    if low in _JUSTFILES or low.endswith(".just"):
        return JUSTFILE
    if low in _NAMED:
        return _NAMED[low]
    if low.endswith(_OF_INI):
        return INI
    if low.endswith((".smk", ".nf")):
        return QUOTED
    if low.endswith((".yaml", ".yml")):
        return YAML
    if low.endswith((".json", ".jsonc")):
        return EDITOR if low in _OF_EDITOR and os.path.basename(folder) == ".vscode" else JSON
    first = head.partition(b"\n")[0]
    if (
        "." not in name
        and first.startswith(b"#!")
        and first.rstrip().endswith((b"/bash", b"/sh", b" bash", b" sh", b"/zsh"))
    ):
        return SHELL
    return ""


def may_start_training(kind: str, data: bytes) -> bool:
    """Worth reading: a launch file that names what starts programs, or the settings of one."""
    if len(data) > MAX_BYTES:
        return False
    if kind == JSON:
        return any(word in data for word in _OF_SETTINGS)
    if kind == YAML:
        described = any(word in data for word in _DESCRIBING)
        # A service may run what its Dockerfile says, or be laid over another one.
        words = (*_WORDS, b"build:", *_OF_SERVICES)
        if any(word in data for word in _OF_SETTINGS) or (described and any(word in data for word in words)):
            return True
        names_others = data.startswith(b"include:") or b"\ninclude:" in data
        return names_others or (any(word in data for word in _RUNNING) and any(word in data for word in _PROGRAMS))
    if kind == TASKS and not any(word in data for word in _OF_TASKS):
        return False
    # What lies in an image may be what others start there.
    if kind == DOCKERFILE and (b"COPY " in data or b"ADD " in data):
        return True
    # A script may call another one, and so may an image. What an editor starts is Python.
    if (kind in (SHELL, MAKEFILE, DOCKERFILE) and b".sh" in data) or (kind == JUSTFILE and b"import" in data):
        return True
    return any(word in data for word in _WORDS) or (kind == EDITOR and b"debugpy" in data) or kind == INI


_BESIDE = (b"subprocess", b"os.system", b"import nox", b"invoke", b"fabric")
_COMMANDS = (
    *(b"torchrun", b"torch.distributed.run", b"torch.distributed.launch", b"accelerate launch", b'"accelerate"'),
    *(b"sbatch", b'"deepspeed"', b"deepspeed "),
)


def may_start_commands(path: str, data: bytes) -> bool:
    """A program that may have a launcher start others, by a look at its bytes. What tests start is no training."""
    name = os.path.basename(path)
    if name.endswith(".ipynb"):
        return any(word in data for word in _COMMANDS)
    if not name.endswith(".py") or name.startswith(("test_", "conftest")) or len(data) > MAX_BYTES:
        return False
    starts = any(word in data for word in _BESIDE) and any(word in data for word in _COMMANDS)
    return starts or (b"sagemaker" in data and b"entry_point" in data) or b"update_parameters" in data


def is_of_editor(path: str) -> bool:
    """VS Code starts it, for debugging."""
    return launch_kind(path) == EDITOR and os.path.basename(path) == "launch.json"


_NAMED_SO = ("deepspeed", "ds_", "ds-", "zero", "accelerate")


def found_by_name(name: str, *, among_many: bool) -> bool:
    """A folder is searched for files of this name. Data sets are JSON, too: of many such files only what sounds like
    settings."""
    kind = launch_kind(name)
    return bool(kind) and (kind != JSON or not among_many or any(each in name.lower() for each in _NAMED_SO))


def in_hidden_folder(folder: str) -> list[str]:
    """What VS Code starts, in a folder of its settings, and the workflows of services; none in other folders."""
    name = os.path.basename(folder)
    if name == ".vscode":
        listed = [os.path.join(folder, each) for each in _OF_EDITOR]
    elif name in _OF_SERVICE and os.path.isdir(inside := os.path.join(folder, _OF_SERVICE[name])):
        listed = [os.path.join(inside, each) for each in sorted(os.listdir(inside)) if launch_kind(each) == YAML]
    else:
        listed = []
    return [path for path in listed if os.path.isfile(path)]


_OF_EDITOR = ("launch.json", "tasks.json")
_OF_SERVICE = {".github": "workflows", ".circleci": "", ".buildkite": ""}
"""Hidden folders, and where in them the workflows lie."""
