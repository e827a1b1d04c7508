"""How the commands of launch files read their options, and which of them only start another one."""

from __future__ import annotations

from gpudoctor.lint.launchfiles.syntax import Syntax, words_of

TORCHRUN = Syntax(
    words_of("standalone module no-python run-path use-env virtual-local-rank help"),
    {"m": "module", "r": "redirects", "t": "tee"},
)
ACCELERATE = Syntax(
    words_of(
        "cpu multi-gpu tpu xpu hpu use-xpu ipex quiet module no-python same-network debug use-fsdp use-deepspeed "
        "use-mps-device use-megatron-lm use-parallelism-config no-tpu-cluster tpu-cluster tpu-use-sudo "
        "enable-cpu-affinity no-same-network help fsdp-forward-prefetch-flag use-cpu"
    ),
    {"m": "module", "q": "quiet"},
)
DEEPSPEED = Syntax(
    words_of(
        "module no-python no-local-rank no-ssh-check no-ssh force-multi elastic-training bind-cores-to-rank save-pid "
        "use-env slurm-flag help"
    ),
    {"H": "hostfile", "i": "include", "e": "exclude"},
)
COMPOSER = Syntax(
    words_of("module-mode command-mode version verbose help v"),
    {"n": "nproc-per-node", "nproc": "nproc-per-node", "m": "module-mode", "c": "command-mode"},
)
FABRIC = Syntax(words_of("help"), {"devices": "nproc-per-node", "num-nodes": "nnodes"})
COLOSSALAI = Syntax(words_of("help"), {"H": "hosts", "host": "hosts", "m": "module"})
TORCHX = Syntax(words_of("dryrun wait log tee_logs"), {"scheduler": "s", "scheduler-args": "cfg"})
OF_COMPONENT = Syntax(words_of("debug"), {"m": "module"})
PYTHON = Syntax(
    words_of("u B s S E I v b d i O OO P q x module help version"),
    {"m": "module", "c": "command", "W": "w-value", "X": "x-value"},
)
SRUN = Syntax(
    words_of(
        "label unbuffered kill-on-bad-exit-flag overlap pty verbose overcommit no-kill multi-prog quiet exact whole "
        "disable-status contiguous hold immediate-flag no-container-mount-home container-writable container-mount-home "
        "no-container-remap-root container-remap-root l u v O s k Q"
    ),
    {
        "N": "nodes",
        "n": "ntasks",
        "G": "gpus",
        "c": "cpus-per-task",
        "p": "partition",
        "w": "nodelist",
        "x": "exclude",
        "t": "time",
        "A": "account",
        "J": "job-name",
        "o": "output",
        "e": "error",
        "i": "input",
        "D": "chdir",
        "C": "constraint",
        "q": "qos",
        "m": "distribution",
        "a": "array",
        "K": "kill-on-bad-exit",
        "r": "relative",
        "B": "extra-node-info",
        "d": "dependency",
        "b": "begin",
        "L": "licenses",
        "M": "clusters",
        "T": "threads",
    },
    optional=words_of("exclusive kill-on-bad-exit immediate propagate K I X"),
)
MPIRUN = Syntax(
    words_of(
        "allow-run-as-root oversubscribe report-bindings tag-output display-map display-allocation nooversubscribe "
        "verbose v q quiet gloo mpi use-gloo use-mpi autotune enable-recovery bycore bynode byslot bind-to-core "
        "bind-to-none prepend-rank l output-proctable do-not-launch"
    ),
    {
        "np": "ntasks",
        "n": "ntasks",
        "c": "ntasks",
        "N": "ntasks-per-node",
        "npernode": "ntasks-per-node",
        "ppn": "ntasks-per-node",
        "H": "hosts",
        "host": "hosts",
        "f": "hostfile",
        "machinefile": "hostfile",
    },
    two=words_of("mca genv env gmca"),
    single_dash=True,
)
JSRUN = Syntax(
    words_of("smpiargs-flag h"),
    {"n": "ntasks", "nrs": "ntasks", "r": "ntasks-per-node", "a": "tasks-per-rs", "c": "cpu-per-rs", "g": "gpu-per-rs"},
)
SSH = Syntax(
    words_of("t tt n q T A N f v x X Y C 4 6 a k K g"),
    {"p": "port", "o": "o", "i": "identity", "l": "login", "J": "jump", "F": "config"},
)
PDSH = Syntax(
    words_of("a A b S N B L q v d n P"),
    {
        "w": "hosts",
        "x": "exclude",
        "g": "group",
        "l": "login",
        "t": "timeout",
        "u": "limit",
        "f": "fanout",
        "R": "module",
    },
)
PBSDSH = Syntax(words_of("c s u v o"), {"n": "node", "h": "host"})
STARTING = words_of("torchrun accelerate deepspeed python python3 srun mpirun bash sh")
ON_ALL = {"pdsh": PDSH, "clush": PDSH, "pbsdsh": PBSDSH}
DOCKER = Syntax(
    words_of(
        "rm privileged init tty interactive detach read-only publish-all no-healthcheck oom-kill-disable quiet help "
        "i t d P it ti dit itd tid nv nvidia"
    ),
    {
        "v": "volume",
        "e": "env",
        "w": "workdir",
        "u": "user",
        "m": "memory",
        "p": "publish",
        "h": "hostname",
        "l": "label",
    },
    starting=STARTING,
)
SINGULARITY = Syntax(
    words_of("nv rocm cleanenv containall contain no-home writable writable-tmpfs fakeroot nvccli no-mount-flag e c C"),
    {"B": "bind", "H": "home", "W": "workdir"},
    starting=STARTING,
)

PLAIN = words_of("exec nohup command builtin setsid time sudo then tini dumb-init unbuffer chronic xvfb-run")
"""They only start what follows them."""
OF_PLAIN = Syntax(words_of("a p E H n k S b i g s v"))
WRAPPERS: dict[str, Syntax] = {
    "env": Syntax(words_of("i ignore-environment")),
    "nice": Syntax(frozenset()),
    "ionice": Syntax(frozenset()),
    "numactl": Syntax(words_of("localalloc hardware show l s"), None),
    "stdbuf": Syntax(words_of("oL eL o0 e0 i0 iL")),
    "timeout": Syntax(words_of("foreground preserve-status verbose v")),
    "taskset": Syntax(words_of("c p a cp")),
    "nsys": Syntax(
        words_of("help"),
        {
            "o": "output",
            "t": "trace",
            "f": "force-overwrite",
            "w": "show-output",
            "s": "sample",
            "y": "delay",
            "d": "duration",
        },
    ),
    "coverage": Syntax(words_of("p branch parallel-mode")),
    "caffeinate": Syntax(words_of("i s d m")),
}
"""They start what follows them and their own words."""
OWN_WORDS = {"timeout": 1, "taskset": 1, "nsys": 1, "coverage": 1}
RUN_OTHERS = {
    "cProfile": Syntax(words_of("m"), {"o": "output", "s": "sort"}),
    "pdb": Syntax(words_of("m"), {"c": "command"}),
    "coverage": Syntax(words_of("m p a branch append parallel-mode")),
    "torch.utils.bottleneck": Syntax(frozenset()),
    "debugpy": Syntax(words_of("m wait-for-client")),
}
"""Modules of Python that run the program or the module (`-m`) behind their own words."""
BSUB = Syntax(words_of("Is I Ip K x B N H r"), {"J": "job-name"}, single_dash=True)
BATCH = {
    **dict.fromkeys(("sbatch", "salloc"), SRUN),
    "bsub": BSUB,
    "oarsub": Syntax(words_of("I")),
    "qsub": Syntax(words_of("I V cwd")),
}
"""They hand the words behind theirs, or a script, to a batch system."""
NO_SLURM = frozenset({"bsub", "oarsub", "qsub"})
ELSEWHERE = frozenset({"gcloud", "ray", "sky", "runai", "kubectl", "gantry", "eai"})
"""What they start runs on another machine, which knows none of our variables."""
ASKS_GPUS = ("--gpu", "--gpus", "-g", "--entrypoint-num-gpus")
"""Options of these, for how many GPUs of one machine."""
QUOTING = ELSEWHERE | words_of("su script flock watch at batch ssh-agent")
"""They are given scripts as words in quotes."""
NAMING = words_of(
    "echo printf which type pip pip3 apt apt-get conda mamba grep egrep pgrep pkill killall kill alias logger git man "
    "test ps sed awk curl wget rm ls cp mv ln chmod touch read trap exit return"
)
"""They do not run what is named in their words."""
SHELL = Syntax(words_of("l e x u i ex eu eux euxo lc"), {"c": "command", "o": "o"})
WITH_COMMAND = ("lc", "ec", "exc", "xc", "cl")
"""Short options of a shell in one word, behind which the command stands."""
EXEC = Syntax(
    words_of("it ti i t d tty interactive detach privileged stdin T"),
    {"c": "container", "n": "namespace"},
    starting=STARTING,
)
"""`docker exec`, `kubectl exec`."""
RUNNERS = words_of("uv poetry pipenv pixi conda mamba micromamba rye hatch pdm")
"""Their `run` starts what follows, in an environment of Python."""
RUN = Syntax(
    words_of(
        "no-capture-output live-stream no-sync frozen locked active isolated all-extras no-dev dev quiet q v "
        "verbose no-project"
    ),
    {"n": "name", "p": "prefix", "m": "module"},
)
SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
GIVES_GPUS = frozenset({"gpus", "runtime", "device", "privileged", "env-file", "volumes-from"})
SCRIPTS = (".sh", ".bash")
CONTAINERS = frozenset({"docker", "podman", "nvidia-docker"})
TOLD_BY_SLURM = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
}
MPI = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "horovodrun", "jsrun", "aprun", "ibrun"})
