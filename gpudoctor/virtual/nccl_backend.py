"""The stand-in for NCCL: a process group that answers as ProcessGroupNCCL does, and exchanges by gloo.

PyTorch's own code for groups asks for it under the name of the class that a build without CUDA lacks, so that the names
of backends, groups of some ranks, meshes and objects are PyTorch's. C++ reaches it as any group that is written in
Python: the reducer of DDP and functional collectives, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    PrefixStore,
    ProcessGroupGloo,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from torch.distributed import distributed_c10d as c10d

from gpudoctor.virtual.nccl_agreement import CallAgreement
from gpudoctor.virtual.nccl_communicators import Communicators
from gpudoctor.virtual.nccl_exchanges import GlooExchanges, Pieces, done, joined, together
from gpudoctor.virtual.nccl_refusals import (
    no_backend_for_cpu,
    not_on_gpu,
    refuse_operation,
    refuse_parts,
    refuse_sizes,
    refuse_tensor,
)
from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.residence import HOST, UNKNOWN, place_of

_UNTIL_THE_END: list[Any] = []
"""What exchanges. Before torch 2.8 or so it ends with Python locked, for which its own threads may still wait: it ends
with the process, not with its group."""


class NcclConfig:
    """Settings of a communicator; whatever a program sets is kept."""

    def __init__(self) -> None:
        self.blocking = 1
        self.cga_cluster_size = 4
        self.min_ctas = 1
        self.max_ctas = 32
        self.net_name: str | None = None
        self.split_share = 0


class NcclOptions:
    """What `ProcessGroupNCCL.Options` is."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self.config = NcclConfig()
        self.backend = "nccl"
        self._timeout = timedelta(minutes=10)
        self.split_from: Any = None
        self.split_color = 0
        self.global_ranks_in_group: list[int] = []
        self.group_name = ""


class VirtualNccl(dist.ProcessGroup):  # type: ignore[misc]
    """One process group over virtual GPUs. Collectives check what NCCL would, and are done by gloo."""

    gpus: ClassVar[VirtualGpus]
    """Those of this process; set where everything is put in place."""

    supports_splitting = True
    supports_coalescing = True
    supports_time_estimate = False
    supports_shrinking = False

    def __init__(self, store: dist.Store, rank: int, size: int, options: NcclOptions | None = None) -> None:
        super().__init__(rank, size)
        self.options = options or NcclOptions()
        self._store = store
        self._timeout = self.options._timeout
        # It may be made under another `torch.device`, and never looks at one.
        self._gloo: Any = ProcessGroupGloo(PrefixStore("gloo", store), rank, size, timeout=self._timeout)
        _UNTIL_THE_END.append(self._gloo)
        # Since torch 2.7.
        if hasattr(self._gloo.options, "group_name"):
            self._gloo.options.global_ranks_in_group = self.options.global_ranks_in_group
            self._gloo.options.group_name = self.options.group_name
        self._exchanges = GlooExchanges(self._gloo, rank, size)
        self._communicators = Communicators(self.gpus, PrefixStore("gpus", store), rank, size)
        self._agreement = CallAgreement(PrefixStore("calls", store), rank, size)
        # C++ asks a group for the backend of a tensor where no method of ours stands before it.
        self._set_default_backend(dist.ProcessGroup.BackendType.NCCL)
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self._gloo)
        try:
            self.size()
        except RuntimeError:
            # Since torch 2.14 a group asks its own backend for that.
            self._register_backend(torch.device("cuda"), dist.ProcessGroup.BackendType.NCCL, self._gloo)
        self._bound: torch.device | None = None

    # --- what torch asks of a group and of its backend ---

    def getBackendName(self) -> str:  # noqa: N802  # the name in C++
        return "nccl"

    def name(self) -> str:
        return "nccl"

    def _get_backend_name(self) -> str:
        return "nccl"

    @property
    def _device_types(self) -> list[torch.device]:
        kinds = ["cpu", "cuda"] if self._serves_host else ["cuda"]
        return [torch.device(kind) for kind in kinds]

    @property
    def bound_device_id(self) -> torch.device | None:
        """The GPU that was given when the group was made."""
        return self._bound

    @bound_device_id.setter
    def bound_device_id(self, device: torch.device | None) -> None:
        self._bound = device

    def _get_backend(self, device: torch.device) -> Any:
        if torch.device(device).type != "cpu":
            return self
        if not self._serves_host:
            raise no_backend_for_cpu()
        return self._gloo

    def eager_connect_single_device(self, device: torch.device) -> None:
        """Make the communicator now, as torch asks where a group is given its device."""
        self._bound = device
        self._communicators.bind(self.gpus.current if device.index is None else device.index)

    def perform_nocolor_split(self, device: torch.device) -> None:
        """What ranks outside of a new group do: nothing, here."""

    def _has_hooks(self) -> bool:
        return False

    def _shutdown(self) -> None:
        """Nothing: what exchanges lives on."""

    shutdown = _shutdown

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        return False

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout

    _set_default_timeout = set_timeout
    _add_ephemeral_timeout = set_timeout

    def _set_sequence_number_for_group(self) -> None:
        self._gloo._set_sequence_number_for_group()

    def _get_sequence_number_for_group(self) -> int:
        number: int = self._gloo._get_sequence_number_for_group()
        return number

    def _start_coalescing(self, device: torch.device) -> None:
        self._coalesced: list[dist.Work] | None = []

    def _end_coalescing(self, device: torch.device) -> dist.Work:
        works, self._coalesced = self._coalesced or [], None
        return together(works) if works else done()

    _coalesced: list[dist.Work] | None = None

    # --- collectives ---

    def allreduce(self, tensors: Pieces, opts: Any = None) -> dist.Work:
        opts = opts or AllreduceOptions()
        self.admit(tensors, opts.reduceOp)
        self._agreement.collective("all_reduce", tensors)
        return self._told(self._exchanges.all_reduce(tensors, opts.reduceOp, self._limit(opts)))

    def allreduce_coalesced(self, tensors: Pieces, opts: Any = None) -> dist.Work:
        return self.allreduce(tensors, opts or AllreduceCoalescedOptions())

    def reduce(self, tensors: Pieces, opts: Any = None) -> dist.Work:
        opts = opts or ReduceOptions()
        self.admit(tensors, opts.reduceOp)
        self._agreement.collective("reduce", tensors, opts.rootRank)
        return self._told(self._exchanges.reduce(tensors[0], opts.rootRank, opts.reduceOp, self._limit(opts)))

    def broadcast(self, tensors: Pieces, opts: Any = None) -> dist.Work:
        opts = opts or BroadcastOptions()
        self.admit(tensors)
        self._agreement.collective("broadcast", tensors, opts.rootRank)
        return self._told(self._exchanges.broadcast(tensors[0], opts.rootRank, self._limit(opts)))

    def allgather(self, outputs: Sequence[Pieces], inputs: Pieces, opts: Any = None) -> dist.Work:
        opts = opts or AllgatherOptions()
        works = []
        for parts, mine in zip(outputs, inputs, strict=True):
            self.admit([mine, *parts])
            refuse_parts(parts, mine, self.size())
            self._agreement.collective("all_gather", parts)
            works.append(self._exchanges.all_gather(parts, mine, self._limit(opts)))
        return self._told(together(works))

    def all_gather_single(self, output: torch.Tensor, mine: torch.Tensor, opts: Any = None) -> dist.Work:
        opts = opts or AllgatherOptions()
        self.admit([mine, output])
        refuse_sizes(output, mine, self.size(), gathers=True)
        parts = output.view(-1).chunk(self.size())
        self._agreement.collective("all_gather", parts)
        return self._told(self._exchanges.all_gather(parts, mine.view(-1), self._limit(opts)))

    def all_gather_single_coalesced(self, outputs: Pieces, inputs: Pieces, opts: Any = None) -> dist.Work:
        return together([self.all_gather_single(*each, opts) for each in zip(outputs, inputs, strict=True)])

    def gather(self, outputs: Sequence[Pieces], inputs: Pieces, opts: Any = None) -> dist.Work:
        opts = opts or GatherOptions()
        parts = outputs[0] if outputs else ()
        self.admit([*inputs, *parts])
        if parts:
            refuse_parts(parts, inputs[0], self.size())
        self._agreement.collective("gather", inputs, opts.rootRank)
        return self._told(self._exchanges.gather(parts, inputs[0], opts.rootRank, self._limit(opts)))

    def scatter(self, outputs: Pieces, inputs: Sequence[Pieces], opts: Any = None) -> dist.Work:
        opts = opts or ScatterOptions()
        parts = inputs[0] if inputs else ()
        self.admit([*outputs, *parts])
        if parts:
            refuse_parts(parts, outputs[0], self.size())
        self._agreement.collective("scatter", outputs, opts.rootRank)
        return self._told(self._exchanges.scatter(outputs[0], parts, opts.rootRank, self._limit(opts)))

    def reduce_scatter(self, outputs: Pieces, inputs: Sequence[Pieces], opts: Any = None) -> dist.Work:
        opts = opts or ReduceScatterOptions()
        mine, parts = outputs[0], inputs[0]
        self.admit([mine, *parts], opts.reduceOp)
        refuse_parts(parts, mine, self.size())
        self._agreement.collective("reduce_scatter", parts)
        begin = sum(part.numel() for part in parts[: self.rank()])
        return self._told(self._exchanges.reduce_scatter(mine, joined(parts), begin, opts.reduceOp, self._limit(opts)))

    def reduce_scatter_single(self, mine: torch.Tensor, whole: torch.Tensor, opts: Any = None) -> dist.Work:
        opts = opts or ReduceScatterOptions()
        self.admit([mine, whole], opts.reduceOp)
        refuse_sizes(whole, mine, self.size(), gathers=False)
        self._agreement.collective("reduce_scatter", [mine] * self.size())
        begin = mine.numel() * self.rank()
        return self._told(
            self._exchanges.reduce_scatter(mine, whole.reshape(-1).clone(), begin, opts.reduceOp, self._limit(opts))
        )

    def reduce_scatter_single_coalesced(self, outputs: Pieces, inputs: Pieces, opts: Any = None) -> dist.Work:
        return together([self.reduce_scatter_single(*each, opts) for each in zip(outputs, inputs, strict=True)])

    def all_to_all_single(
        self,
        output: torch.Tensor,
        mine: torch.Tensor,
        output_sizes: Sequence[int] | None,
        input_sizes: Sequence[int] | None,
        opts: Any = None,
    ) -> dist.Work:
        self.admit([mine, output])
        received, sent = self._pieces(output, output_sizes), self._pieces(mine, input_sizes)
        self._agreement.exchange(sent, received)
        return self._told(self._exchanges.all_to_all(received, sent, self._limit(opts or AllToAllOptions())))

    def alltoall(self, outputs: Pieces, inputs: Pieces, opts: Any = None) -> dist.Work:
        self.admit([*inputs, *outputs])
        self._agreement.exchange(inputs, outputs)
        return self._told(self._exchanges.all_to_all(outputs, inputs, self._limit(opts or AllToAllOptions())))

    def barrier(self, opts: Any = None) -> dist.Work:
        opts = opts or BarrierOptions()
        if opts.device_ids:
            self._communicators.connect(self.gpus.checked(opts.device_ids[0]))
        self._agreement.collective("barrier")
        return self._told(self._gloo.barrier(opts))

    def monitored_barrier(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("ProcessGroupWrapper only supports monitoredBarrier for gloo backend.")

    # --- between two ranks. NCCL knows no tags ---

    def send(self, tensors: Pieces, dst: int, tag: int) -> dist.Work:
        self.admit(tensors, between_two=True)
        self._agreement.between(self.rank(), dst, tensors)
        return self._told(self._gloo.send([each.contiguous() for each in tensors], dst, 0))

    def recv(self, tensors: Pieces, src: int, tag: int) -> dist.Work:
        self.admit(tensors, between_two=True)
        self._agreement.between(src, self.rank(), tensors)
        return self._told(self._gloo.recv(list(tensors), src, 0))

    def recv_anysource(self, tensors: Pieces, tag: int) -> dist.Work:
        raise RuntimeError("ProcessGroupNCCL does not support recvAnysource")

    # Their names before torch 2.13.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # --- what NCCL looks at before it begins ---

    def admit(self, tensors: Pieces, operation: Any = None, *, between_two: bool = False) -> None:
        """Raise where NCCL would; have a communicator for the GPU of these tensors."""
        places = [place_of(each) for each in tensors]
        if HOST in places:
            if any(place is not UNKNOWN and place >= 0 for place in places):
                raise not_on_gpu()
            if self._serves_host:
                return
            raise no_backend_for_cpu()
        for tensor in tensors:
            refuse_tensor(tensor, between_two=between_two)
        if operation is not None:
            refuse_operation(operation, tensors)
        if not between_two:
            self._communicators.connect(next((place for place in places if place is not UNKNOWN), UNKNOWN))

    @property
    def _serves_host(self) -> bool:
        """The group was made with a backend for tensors of the host, too (`cpu:gloo,cuda:nccl`)."""
        config = c10d._world.pg_backend_config.get(self)
        return config is not None and "cpu:" in str(config)

    def _limit(self, opts: Any) -> timedelta:
        given: timedelta = getattr(opts, "timeout", timedelta(milliseconds=-1))
        return given if given > timedelta() else self._timeout

    def _told(self, work: dist.Work) -> dist.Work:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _pieces(self, tensor: torch.Tensor, sizes: Sequence[int] | None) -> Pieces:
        """The parts of the first dimension for each rank."""
        if not sizes and tensor.size(0) % self.size():
            raise RuntimeError("Tensor's dim 0 does not divide equally across group size")
        parts: Pieces = tensor.split(list(sizes) if sizes else tensor.size(0) // self.size())
        return parts


VirtualNccl.Options = NcclOptions
VirtualNccl.NCCLConfig = NcclConfig
