"""What environment variables do: one line each, and for some a look at the value.

A look returns the effect, what is wrong with the value, and what to type; the last two are empty where nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpudoctor.probe.inventory.facts import Visibility
from gpudoctor.probe.inventory.visible_gpus import parse
from gpudoctor.record import dataclass

_ON = ("1", "true", "yes", "on", "y", "t")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Surroundings:
    """What a value is held against."""

    environment: Mapping[str, str]
    visibility: Visibility | None = None
    """None where nobody has looked for GPUs."""
    interfaces: tuple[str, ...] = ()
    cpus: int | None = None
    adapters: tuple[str, ...] = ()
    """InfiniBand and RoCE adapters that are up."""
    peer_access: bool = False
    """Whether some GPUs can read each other's memory."""

    def number(self, name: str) -> int | None:
        value = self.environment.get(name, "").strip()
        return int(value) if value.lstrip("-").isdigit() else None


Look = tuple[str, str, str]
Looker = Callable[[str, Surroundings], Look]


def _fine(effect: str) -> Look:
    return effect, "", ""


def _visible(value: str, here: Surroundings) -> Look:
    seen = here.visibility
    if seen is None:
        choice = parse(value)
        if not choice.entries and not choice.twice:
            return _fine("programs see no GPU")
        return "programs see only these GPUs, and count them from 0", choice.doubt, ""
    effect = f"programs see {counted(len(seen.devices), 'GPU')}"
    order = [str(each.gpu.or_else("?")) for each in seen.devices]
    if order:
        effect += f": {'GPU' if len(order) == 1 else 'GPUs'} {', '.join(order)} of nvidia-smi, in this order"
    return effect, seen.doubt, "unset CUDA_VISIBLE_DEVICES" if seen.doubt else ""


def _device_order(value: str, here: Surroundings) -> Look:
    if value == "PCI_BUS_ID":
        return _fine("CUDA counts GPUs as nvidia-smi does")
    if value == "FASTEST_FIRST":
        return _fine("CUDA counts the fastest GPU first")
    return (
        "CUDA counts the fastest GPU first",
        f"{value!r} is not an order that CUDA knows",
        _set("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    )


def _blocking(value: str, here: Surroundings) -> Look:
    if value.strip() in ("", "0"):
        return _fine("nothing: kernels are launched without waiting, as by default")
    doubt = "CPU and GPU never work at the same time: a switch for finding bugs, which slows training"
    return "every kernel launch waits until the kernel has ended", doubt, "unset CUDA_LAUNCH_BLOCKING"


def _threads(library: str) -> Looker:
    def look(value: str, here: Surroundings) -> Look:
        first = value.split(",")[0].strip()
        if not first.isdigit() or int(first) == 0:
            return f"{library} takes its default", f"{value!r} is not a number of threads", ""
        count = int(first)
        effect = f"{library} computes on {counted(count, 'CPU thread')} in each process"
        if count == 1 and "TORCHELASTIC_RUN_ID" in here.environment:
            return _fine(f"{effect}: torchrun sets 1 where nothing is set")
        ranks = here.number("LOCAL_WORLD_SIZE") or 1
        if here.cpus is not None and count * ranks > 2 * here.cpus:
            doubt = f"{counted(ranks, 'rank')} with {count} threads each share {counted(here.cpus, 'CPU')}"
            return effect, doubt, _set("OMP_NUM_THREADS", str(max(1, here.cpus // ranks)))
        return _fine(effect)

    return look


def _rank(value: str, here: Surroundings) -> Look:
    world = here.number("WORLD_SIZE")
    rank = here.number("RANK")
    if rank is None:
        return "none", f"{value!r} is not a number", ""
    if world is None:
        return f"this is rank {rank}", "WORLD_SIZE is not set: init_process_group will raise", "unset RANK"
    if not 0 <= rank < world:
        return (
            f"this is rank {rank} of {world}",
            f"ranks go from 0 to {world - 1}: init_process_group will wait forever",
            "",
        )
    return _fine(f"this is rank {rank} of {world}")


def _local_rank(value: str, here: Surroundings) -> Look:
    rank = here.number("LOCAL_RANK")
    if rank is None:
        return "none", f"{value!r} is not a number", ""
    effect = f"this rank should take GPU {rank} of those that it sees"
    seen = here.visibility
    # A launcher that gives each rank its own GPU leaves it LOCAL_RANK all the same.
    if seen is not None and len(seen.devices) > 1 and rank >= len(seen.devices):
        there = counted(len(seen.devices), "GPU")
        return effect, f"it sees {there}: torch.cuda.set_device({rank}) raises `invalid device ordinal`", ""
    return _fine(effect)


def _world(value: str, here: Surroundings) -> Look:
    world = here.number("WORLD_SIZE")
    if world is None or world < 1:
        return "none", f"{value!r} is not a number of ranks", "unset WORLD_SIZE"
    return _fine(f"{counted(world, 'rank')} in all")


def _address(value: str, here: Surroundings) -> Look:
    world, local = here.number("WORLD_SIZE"), here.number("LOCAL_WORLD_SIZE")
    effect = f"ranks meet at {value}"
    if value in _LOOPBACK and world is not None and local is not None and world > local:
        doubt = f"{value} means each node itself, and only {local} of {world} ranks are on this one: they never meet"
        return effect, doubt, _set("MASTER_ADDR", "<address of the first node>")
    return _fine(effect)


def _port(value: str, here: Surroundings) -> Look:
    if value.isdigit() and 0 < int(value) < 65536:
        return _fine(f"ranks meet at port {value}")
    return "none", f"{value!r} is not a port", _set("MASTER_PORT", "29500")


def _off(effect: str, doubt: str, matters: Callable[[Surroundings], object] = lambda here: True) -> Looker:
    """A switch that takes something away, which `matters` where it is there."""

    def look(value: str, here: Surroundings) -> Look:
        if value.strip().lower() in ("", "0", "false", "no", "off"):
            return _fine("nothing: switched off, as by default")
        return (effect, doubt, "") if matters(here) else _fine(effect)

    return look


def _interfaces(library: str, exact: bool) -> Looker:
    def look(value: str, here: Surroundings) -> Look:
        effect = f"{library} talks over {value}"
        names = [each.strip().partition(":")[0] for each in value.split(",") if each.strip()]
        excluding = value.startswith("^")
        if excluding:
            return _fine(f"{library} talks over any interface but {value[1:].lstrip('=')}")
        # NCCL takes beginnings of names unless told `=`; gloo takes names.
        whole = exact or value.startswith("=")
        wanted = [name.lstrip("=") for name in names]
        if not here.interfaces or any(_fits(name, here.interfaces, whole) for name in wanted):
            return _fine(effect)
        doubt = f"this machine has no such interface (it has {', '.join(here.interfaces)})"
        return effect, doubt, f"unset {library.upper()}_SOCKET_IFNAME"

    return look


def _fits(name: str, interfaces: tuple[str, ...], whole: bool) -> bool:
    return any(each == name or (not whole and each.startswith(name)) for each in interfaces)


def _distributed_debug(value: str, here: Surroundings) -> Look:
    level = value.upper()
    if level == "DETAIL":
        doubt = "every collective is checked on all ranks before it runs, about three times the time of small ones"
        return "each collective is compared across ranks first", doubt, "unset TORCH_DISTRIBUTED_DEBUG"
    if level == "INFO":
        return _fine("DistributedDataParallel logs what it was built with")
    if level == "OFF":
        return _fine("nothing, as by default")
    return (
        "none",
        f"{value!r} is none of OFF, INFO, DETAIL: init_process_group will raise",
        "unset TORCH_DISTRIBUTED_DEBUG",
    )


def _async_errors(value: str, here: Surroundings) -> Look:
    if value.strip() == "0":
        doubt = "a rank that waits for a dead one waits forever"
        return "an error or timeout of NCCL does not end the process", doubt, "unset TORCH_NCCL_ASYNC_ERROR_HANDLING"
    return _fine("an error or timeout of NCCL ends the process, as by default")


def _nccl_debug(value: str, here: Surroundings) -> Look:
    level = value.upper()
    if level == "TRACE":
        return "NCCL writes a line for every call", "it costs time and fills logs", _set("NCCL_DEBUG", "WARN")
    if level in ("VERSION", "WARN", "INFO", "ABORT", "NONE"):
        return _fine(f"NCCL writes messages of level {level}")
    return "none", f"{value!r} is not a level of NCCL's (VERSION, WARN, INFO, TRACE)", _set("NCCL_DEBUG", "WARN")


def _tf32(value: str, here: Surroundings) -> Look:
    if value.strip() == "0":
        doubt = "matrix products of float32 run without tensor cores, several times slower"
        return "no library uses TF32, whatever the program asks for", doubt, "unset NVIDIA_TF32_OVERRIDE"
    return _fine("libraries may use TF32")


def _capabilities(value: str, here: Surroundings) -> Look:
    wanted = {each.strip() for each in value.split(",")}
    missing = [each for each in ("compute", "utility") if each not in wanted and "all" not in wanted]
    if not missing:
        return _fine("what the container may use of the driver")
    doubt = f"{' and '.join(missing)} left out: no {'CUDA' if 'compute' in missing else 'NVML'} in this container"
    return (
        "what the container may use of the driver",
        doubt,
        "docker run -e NVIDIA_DRIVER_CAPABILITIES=compute,utility ...",
    )


def _renamed(new: str) -> Looker:
    return lambda value, here: _fine(f"old name of {new}, which torch still reads, with a warning")


def counted(number: int, what: str) -> str:
    """So many of something, in words."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _set(name: str, value: str) -> str:
    return f"export {name}={value}"


LOOKS: dict[str, Looker] = {
    "CUDA_VISIBLE_DEVICES": _visible,
    "CUDA_DEVICE_ORDER": _device_order,
    "CUDA_LAUNCH_BLOCKING": _blocking,
    "OMP_NUM_THREADS": _threads("OpenMP"),
    "MKL_NUM_THREADS": _threads("MKL"),
    "RANK": _rank,
    "LOCAL_RANK": _local_rank,
    "WORLD_SIZE": _world,
    "MASTER_ADDR": _address,
    "MASTER_PORT": _port,
    "NCCL_P2P_DISABLE": _off(
        "GPUs of one node exchange data through the machine's memory",
        "several times slower than directly, as GPUs of this machine could",
        lambda here: here.peer_access,
    ),
    "NCCL_SHM_DISABLE": _off(
        "ranks of one node talk over the network", "where GPUs cannot reach each other directly, much slower"
    ),
    "NCCL_IB_DISABLE": _off(
        "NCCL leaves InfiniBand and RoCE alone and uses TCP",
        "this machine has such adapters, and nodes talk many times slower without",
        lambda here: here.adapters,
    ),
    "NCCL_SOCKET_IFNAME": _interfaces("NCCL", exact=False),
    "GLOO_SOCKET_IFNAME": _interfaces("gloo", exact=True),
    "NCCL_DEBUG": _nccl_debug,
    "TORCH_DISTRIBUTED_DEBUG": _distributed_debug,
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": _async_errors,
    "TORCH_NCCL_BLOCKING_WAIT": _off(
        "the CPU waits for each collective", "it cannot prepare the next kernels meanwhile"
    ),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": _off("each tensor is allocated by the driver", "training slows down many times"),
    "NVIDIA_TF32_OVERRIDE": _tf32,
    "NVIDIA_DRIVER_CAPABILITIES": _capabilities,
    "NCCL_ASYNC_ERROR_HANDLING": _renamed("TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    "NCCL_BLOCKING_WAIT": _renamed("TORCH_NCCL_BLOCKING_WAIT"),
    "NCCL_DESYNC_DEBUG": _renamed("TORCH_NCCL_DESYNC_DEBUG"),
    "TORCH_NCCL_TRACE_BUFFER_SIZE": _renamed("TORCH_FR_BUFFER_SIZE"),
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": _renamed("TORCH_FR_DUMP_TEMP_FILE"),
}

EFFECTS: dict[str, str] = {
    "LOCAL_WORLD_SIZE": "ranks on this node",
    "GROUP_RANK": "number of this node",
    "NODE_RANK": "number of this node, for launchers",
    "NVIDIA_VISIBLE_DEVICES": "GPUs that were put into this container",
    "HIP_VISIBLE_DEVICES": "programs see only these AMD GPUs",
    "ROCR_VISIBLE_DEVICES": "programs see only these AMD GPUs",
    "CUDA_DEVICE_MAX_CONNECTIONS": "hardware queues for kernels of one process",
    "CUDA_MODULE_LOADING": "when kernels are loaded",
    "CUBLAS_WORKSPACE_CONFIG": "scratch memory of cuBLAS; a fixed one makes results repeatable",
    "PYTORCH_ALLOC_CONF": "how torch's allocator takes memory",
    "PYTORCH_CUDA_ALLOC_CONF": "how torch's allocator takes GPU memory",
    "TORCH_FR_BUFFER_SIZE": "collectives that the flight recorder keeps; 0 switches it off",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "seconds until a stuck watchdog ends the process",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "whether the flight recorder is written at a timeout",
    "TORCHELASTIC_RUN_ID": "started by torchrun",
    "TORCHELASTIC_RESTART_COUNT": "how often torchrun has restarted the ranks",
    "NCCL_ALGO": "NCCL may use only these algorithms, whatever would be fastest",
    "NCCL_PROTO": "NCCL may use only these protocols, whatever would be fastest",
    "NCCL_MIN_NCHANNELS": "least number of channels: faster transfers, less room for kernels",
    "NCCL_MAX_NCHANNELS": "largest number of channels: slower transfers, more room for kernels",
    "NCCL_BUFFSIZE": "bytes of each buffer between two GPUs",
    "NCCL_NVLS_ENABLE": "whether switches add up values themselves",
    "NCCL_IB_HCA": "InfiniBand and RoCE adapters that NCCL may use",
    "NCCL_NET": "network plugin that NCCL must use",
    "NCCL_NET_GDR_LEVEL": "how far a network card may be from a GPU that it reads directly",
    "NCCL_P2P_LEVEL": "how far GPUs may be from each other to exchange data directly",
    "NCCL_CROSS_NIC": "whether a ring may use other network cards on other nodes",
    "NCCL_TOPO_FILE": "how the machine is wired, in place of what NCCL sees",
    "NCCL_DEBUG_SUBSYS": "parts of NCCL that write messages",
    "NCCL_DEBUG_FILE": "where NCCL writes messages",
    "SLURM_PROCID": "number of this task among all of the job",
    "SLURM_LOCALID": "number of this task on this node",
    "SLURM_NTASKS": "tasks of the job",
}
