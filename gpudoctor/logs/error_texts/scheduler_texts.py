"""Errors of schedulers, containers and shells, before or around the program."""

from __future__ import annotations

from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole

_STOPPED = FailureRole.STOPPED

SCHEDULER_TEXTS: tuple[ErrorText, ...] = (
    ErrorText(
        r"execve\(\): \S+: No such file or directory",
        "The scheduler did not find the program to start on this node.",
        "Activate the environment in the job's script, or give the whole path.",
        library="slurm",
    ),
    ErrorText(
        r"execve\(\): \S+: Permission denied|bash: \S+: Permission denied|exec format error|"
        r"cannot execute binary file",
        "The program to start is there and cannot be executed on this node.",
        "`chmod +x`, or start it with `python`; an exec format error is a file for another kind of processor.",
        library="shell",
    ),
    ErrorText(
        r"srun: error: Unable to (?:create step|allocate|confirm allocation)|sbatch: error: |salloc: error: |"
        r"(?:More processors requested than permitted|Requested node configuration is not available|"
        r"Memory required by task is not available|Invalid generic resource)",
        "SLURM does not give what was asked for; the text says what.",
        "Compare `--nodes`, `--ntasks-per-node`, `--gpus-per-node`, `--mem` and the partition with `sinfo` and "
        "`scontrol show job`.",
        library="slurm",
    ),
    ErrorText(
        r"slurmstepd: error: (?:Unable|Failed) to|launch failed: |task \d+ launch failed|Task launch for \S+ failed",
        "SLURM could not start the task on this node.",
        "`scontrol show node` says what is wrong with it.",
        library="slurm",
    ),
    ErrorText(
        r"not enough slots available in the system|ORTE (?:was unable to|does not know)|PRTE (?:was unable|has lost)|"
        r"unable to find the specified executable file|OPAL ERROR|PMIX? ERROR|not built with SLURM's PMI|"
        r"MPI_Init(?:_thread)?\b.*(?:fail|error)",
        "MPI could not start the processes.",
        "Compare the number of processes with the slots of the host file; under SLURM, `srun --mpi=pmix`.",
        library="mpi",
    ),
    ErrorText(
        r"(?:torchrun|accelerate|deepspeed|python3?|srun|mpirun|horovodrun|conda|module|nvidia-smi|\S+): "
        r"(?:command )?not found(?:\s|$)|未找到命令|CondaError|"
        r"CommandNotFoundError|has not been properly configured to use "
        r"'conda|EnvironmentNameNotFound|No module named torch\.distributed\.(?:run|launch)",
        "The shell did not find a command: the environment of the program is not activated on this node.",
        "Activate it in the job's script (`source .../bin/activate`), or give the whole path.",
        library="shell",
    ),
    ErrorText(
        r"ImagePullBackOff|ErrImagePull|Error response from daemon|CreateContainerConfigError|"
        r"CreateContainerError|RunContainerError|FailedMount|FailedScheduling|Unschedulable|Insufficient nvidia\.com",
        "The container was not started; the text says why.",
        "`kubectl describe pod` or `docker inspect` tells more: the image, its secrets, volumes, or GPUs that are not "
        "there.",
        library="container",
    ),
    ErrorText(
        r"DeadlineExceeded|BackoffLimitExceeded|activeDeadlineSeconds",
        "Kubernetes ended the job: its time was over, or it had failed as often as it may.",
        "Look into the logs of the pods that failed before.",
        role=_STOPPED,
        library="kubernetes",
    ),
)
