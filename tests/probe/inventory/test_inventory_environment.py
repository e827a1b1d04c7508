"""What environment variables do here, which values are doubted, and which names are misspelt."""

import pytest

from gpudoctor.probe.inventory.environment import meant, variables
from gpudoctor.probe.inventory.facts import Gpu, MigInstance, TorchDevice, Variable, Visibility, Visible
from gpudoctor.probe.inventory.field import known
from gpudoctor.probe.inventory.meanings import EFFECTS, LOOKS, Surroundings
from gpudoctor.probe.inventory.variable_names import KNOWN, MISTAKEN
from gpudoctor.probe.inventory.visible_gpus import parse, visibility

GPUS = tuple(Gpu(index, uuid=known(f"GPU-{index}a{index}"), name=known("L4"), pci=known(f"00000000:{index}0:00.0"))
             for index in range(4))  # fmt: skip
TWO = Visibility(tuple(Visible(index, gpu=known(index)) for index in range(2)))


def look(name: str, value: str, **others: str) -> Variable:
    here = Surroundings(
        {name: value, **others}, TWO, ("eth0", "lo", "ib0"), cpus=16, adapters=("mlx5_0",), peer_access=True
    )
    return next(each for each in variables(here) if each.name == name)


@pytest.mark.parametrize(
    ("value", "entries", "doubt"),
    [
        ("0,1", (0, 1), ""),
        ("1, 0", (1, 0), ""),
        ("3", (3,), ""),
        ("", (), "empty"),
        ("-1", (), "hides all"),
        ("0,1,-1,2", (0, 1), "'-1'"),
        ("1,1", (), "twice"),
        ("0,foo", (0,), "'foo'"),
        ("2ampere,1", (2, 1), ""),
        ("GPU-aa,GPU-bb", ("GPU-aa", "GPU-bb"), ""),
        ("GPU-aa,1", ("GPU-aa",), "'1'"),
        ("GPU-aa,GPU-aa", (), "twice"),
        ("MIG-xyz", ("MIG-xyz",), ""),
        ("all", (), "'all'"),
    ],
)
def test_values_are_read_as_cuda_reads_them(value: str, entries: tuple[int | str, ...], doubt: str) -> None:
    choice = parse(value)
    assert choice.entries == entries
    assert doubt in choice.doubt
    assert bool(doubt) == bool(choice.doubt)


def indices(value: str | None, gpus: tuple[Gpu, ...] = GPUS, **others: str) -> list[int | None]:
    environment = {**others, **({} if value is None else {"CUDA_VISIBLE_DEVICES": value})}
    return [each.gpu.value for each in visibility(gpus, (), environment).devices]


def test_which_gpus_are_visible() -> None:
    assert indices(None) == [0, 1, 2, 3]
    assert indices("2,0") == [2, 0]
    assert indices("GPU-3a") == [3]
    assert indices("0,9,1") == [0]
    assert indices("9") == []
    assert "there is no GPU 9 (there are GPUs 0 to 3)" in visibility(GPUS, (), {"CUDA_VISIBLE_DEVICES": "9"}).doubt


def test_a_beginning_that_two_gpus_share_shows_neither() -> None:
    assert indices("GPU-") == []


def test_mig_instances_belong_to_their_gpu() -> None:
    cut = (GPUS[0], Gpu(1, uuid=known("GPU-1"), mig=known(True), mig_instances=(MigInstance(known("MIG-7")),)))
    assert indices("MIG-7", cut) == [1]
    assert indices("MIG-GPU-1/3/0", cut) == [1]
    assert visibility(cut, (), {"CUDA_VISIBLE_DEVICES": "MIG-7"}).devices[0].uuid.value == "MIG-7"


def test_cuda_counts_the_fastest_first() -> None:
    mixed = (*GPUS[:1], Gpu(1, uuid=known("GPU-1"), name=known("H100")))
    assert indices("0,1", mixed) == [None, None], "nobody knows without asking CUDA"
    assert indices("0,1", mixed, CUDA_DEVICE_ORDER="PCI_BUS_ID") == [0, 1]
    assert indices("GPU-1", mixed) == [1]


def test_torch_knows_best() -> None:
    devices = (
        TorchDevice(0, "L4", uuid=known("GPU-3A3")),
        TorchDevice(1, "L4", pci=known("0000:10:00.0")),
        TorchDevice(2, "L4", uuid=known("GPU-nobody")),
    )
    where = visibility(GPUS, devices, {})
    assert [each.gpu.value for each in where.devices] == [3, 1, None]
    assert where.source == "torch"


def test_without_gpus_no_value_is_doubted() -> None:
    assert visibility((), (), {"CUDA_VISIBLE_DEVICES": ""}).doubt == ""


@pytest.mark.parametrize(
    ("name", "value", "others", "effect", "doubt"),
    [
        ("CUDA_VISIBLE_DEVICES", "0,1", {}, "programs see 2 GPUs: GPUs 0, 1", ""),
        ("CUDA_LAUNCH_BLOCKING", "1", {}, "waits", "slows training"),
        ("CUDA_LAUNCH_BLOCKING", "0", {}, "nothing", ""),
        ("CUDA_DEVICE_ORDER", "pci_bus_id", {}, "fastest", "not an order"),
        ("OMP_NUM_THREADS", "1", {"TORCHELASTIC_RUN_ID": "x"}, "torchrun sets 1", ""),
        ("OMP_NUM_THREADS", "16", {"LOCAL_WORLD_SIZE": "8"}, "16 CPU threads", "8 ranks with 16 threads each"),
        ("OMP_NUM_THREADS", "four", {}, "default", "not a number"),
        ("RANK", "4", {"WORLD_SIZE": "4"}, "rank 4 of 4", "from 0 to 3"),
        ("RANK", "0", {}, "rank 0", "WORLD_SIZE is not set"),
        ("RANK", "3", {"WORLD_SIZE": "4"}, "rank 3 of 4", ""),
        ("LOCAL_RANK", "2", {}, "take GPU 2", "invalid device ordinal"),
        ("LOCAL_RANK", "1", {}, "take GPU 1", ""),
        ("WORLD_SIZE", "zero", {}, "none", "not a number"),
        ("MASTER_ADDR", "localhost", {"WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}, "localhost", "never meet"),
        ("MASTER_ADDR", "localhost", {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"}, "localhost", ""),
        ("MASTER_PORT", "99999", {}, "none", "not a port"),
        ("NCCL_P2P_DISABLE", "1", {}, "machine's memory", "slower"),
        ("NCCL_P2P_DISABLE", "0", {}, "as by default", ""),
        ("NCCL_SOCKET_IFNAME", "eth", {}, "NCCL talks over eth", ""),
        ("NCCL_SOCKET_IFNAME", "=eth", {}, "NCCL", "no such interface"),
        ("NCCL_SOCKET_IFNAME", "^docker,lo", {}, "any interface but docker,lo", ""),
        ("NCCL_SOCKET_IFNAME", "ens3", {}, "ens3", "it has eth0, lo, ib0"),
        ("GLOO_SOCKET_IFNAME", "eth", {}, "gloo", "no such interface"),
        ("NCCL_DEBUG", "INFO", {}, "INFO", ""),
        ("NCCL_DEBUG", "loud", {}, "none", "not a level"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", {}, "compared across ranks", "three times"),
        ("TORCH_DISTRIBUTED_DEBUG", "1", {}, "none", "will raise"),
        ("NCCL_ASYNC_ERROR_HANDLING", "1", {}, "old name of TORCH_NCCL_ASYNC_ERROR_HANDLING", ""),
        ("NCCL_IB_DISABLE", "1", {}, "uses TCP", "has such adapters"),
        ("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0", {}, "does not end", "forever"),
        ("NVIDIA_TF32_OVERRIDE", "0", {}, "no library", "slower"),
        ("NVIDIA_DRIVER_CAPABILITIES", "compute", {}, "container", "no NVML"),
        ("NVIDIA_DRIVER_CAPABILITIES", "all", {}, "container", ""),
        ("NCCL_ALGO", "Ring", {}, "only these algorithms", ""),
        ("NCCL_SOMETHING_NEW", "1", {}, "unknown here", ""),
        ("PET_NPROC_PER_NODE", "8", {}, "torchrun", ""),
    ],
)
def test_what_variables_do(name: str, value: str, others: dict[str, str], effect: str, doubt: str) -> None:
    found = look(name, value, **others)
    assert effect in found.effect
    assert doubt in found.doubt
    assert bool(doubt) == bool(found.doubt) == bool(found.remedy)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("CUDA_VISIBLE_DEVICE", "CUDA_VISIBLE_DEVICES"),
        ("CUDA_VISBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        ("CUDA_VISIBLE_DEVICSE", "CUDA_VISIBLE_DEVICES"),
        ("cuda_visible_devices", "CUDA_VISIBLE_DEVICES"),
        ("NCCL_P2P_DISABLED", "NCCL_P2P_DISABLE"),
        ("NCCL_SOCKET_IFNAMES", "NCCL_SOCKET_IFNAME"),
        ("MASTER_ADDRESS", "MASTER_ADDR"),
        ("WORLDSIZE", "WORLD_SIZE"),
        ("OMP_NUM_THREAD", "OMP_NUM_THREADS"),
        ("TORCH_NCCL_BLOCKNG_WAIT", "TORCH_NCCL_BLOCKING_WAIT"),
        ("NCCL_IB_DISABLE", ""),
        ("NCCL_NVLS_ENABLE", ""),
        ("NCCL_FASTRAK_IFNAME", ""),
        ("MASTER_KEY", ""),
        ("TORCH_EXTENSIONS", ""),
        ("rank", ""),
        ("PATH", ""),
    ],
)
def test_misspelt_names(wrong: str, right: str) -> None:
    assert meant(wrong) == right


def test_what_is_switched_off_must_be_there_to_matter() -> None:
    here = Surroundings({"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1"}, TWO)
    assert [each.doubt for each in variables(here)] == ["", ""]


def test_a_rank_with_a_gpu_of_its_own_may_have_any_local_rank() -> None:
    one = Visibility((Visible(0, gpu=known(5)),), "5")
    assert variables(Surroundings({"LOCAL_RANK": "5"}, one))[0].doubt == ""


def test_a_misspelt_name_does_nothing() -> None:
    found = look("NCCL_P2P_DISABLED", "1")
    assert (found.effect, found.remedy) == ("nothing", "unset NCCL_P2P_DISABLED; export NCCL_P2P_DISABLE=1")
    assert "NCCL_P2P_DISABLE is meant" in found.doubt


def test_no_known_name_looks_like_another() -> None:
    assert not [name for name in KNOWN if meant(name)]
    assert set(LOOKS) <= KNOWN
    assert set(MISTAKEN.values()) <= KNOWN
    assert not set(LOOKS) & set(EFFECTS)


def test_secrets_and_strangers_are_not_shown() -> None:
    here = Surroundings({"NCCL_SECRET_KEY": "hunter2", "HOME": "/root", "CUDA_HOME": "/usr/local/cuda"})
    assert [(each.name, each.value) for each in variables(here)] == [("NCCL_SECRET_KEY", "(hidden)")]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("NCCL_PASSWD", "hunter2", "(hidden)"),
        ("PET_RDZV_AUTH", "hunter2", "(hidden)"),
        ("gloo_credentials", "hunter2", None),
        ("GLOO_CREDENTIALS", "hunter2", "(hidden)"),
        # Names that anybody may have given.
        ("MASTER_OF_ALL", "hunter2", "(hidden)"),
        ("TP_LINK", "hunter2", "(hidden)"),
        ("PET_RDZV_ENDPOINT", "https://me:hunter2@head:29400/x", "https://(hidden)@head:29400/x"),
        ("PET_RDZV_CONF", "timeout=3,token=hunter2,read_timeout=5", "timeout=3,token=(hidden),read_timeout=5"),
        ("TORCH_HOME", "/cache/hf_abcdefghijklmnop/x", "/cache/(hidden)/x"),
        ("MASTER_ADDR", "head-node-7", "head-node-7"),
        ("NCCL_IB_PKEY", "3", "3"),
        ("NCCL_NEWER_THAN_US", "5", "5"),
        ("NCCL_TOPO_FILE", "/etc/topo.xml", "/etc/topo.xml"),
    ],
)
def test_what_may_be_a_secret_is_not_shown(name: str, value: str, shown: str | None) -> None:
    found = variables(Surroundings({name: value}))
    assert [each.value for each in found] == ([] if shown is None else [shown])
    assert "hunter2" not in repr(found)
