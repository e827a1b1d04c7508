"""Device meshes: ranks in rows and columns, along each of which other work is shared."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.abstract_state import NO, PROCESS, MeshState, ProcessState
from gpudoctor.lint.domain.device import Device, on_cpu
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.symbols import CallResult, Item, MethodResult
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values, single_of
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import known_items
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, singleton
from gpudoctor.lint.library.devices import devices_of, use
from gpudoctor.lint.library.torch_distributed import begin_group

MESH = "torch.distributed.device_mesh.DeviceMesh"


@MODELS.callable(
    "torch.distributed.device_mesh.init_device_mesh",
    "torch.distributed.init_device_mesh",
    "torch.distributed.device_mesh.DeviceMesh",
    "torch.distributed.DeviceMesh",
    "torch.distributed.tensor.DeviceMesh",
    "torch.distributed.tensor.init_device_mesh",
    "torch.distributed._tensor.DeviceMesh",
    "torch.distributed._tensor.init_device_mesh",
)
def _mesh(call: Call) -> Values:
    # A mesh makes the default group itself where there is none.
    begin_group(call, call.name)
    devices = devices_of(call.arg(0, "device_type"), call.place)
    mesh = Unknown(CallResult(call.name, call.allocation_site()), "a device mesh", call.label, escaped_from=MESH)
    if call.name.endswith("init_device_mesh"):
        for cell, given in (
            (MeshState.shape, call.arg(1, "mesh_shape")),
            (MeshState.names, call.arg(2, "mesh_dim_names")),
        ):
            if given is not None:
                call.do.set_state(mesh, cell, given)
    if on_cpu(devices):
        call.do.set_flag(mesh, MeshState.of_cpus)
    # It takes the GPU of the rank where the process has chosen none.
    elif devices is not None and call.do.several_processes and not call.do.state(PROCESS, ProcessState.current_gpu):
        own = Device("cuda", Rank(RankKind.LOCAL, RankSource.ENVIRONMENT, place=call.place), call.place)
        use(call, singleton(own), "set_device")
        call.do.set_state(PROCESS, ProcessState.current_gpu, singleton(own))
    return singleton(mesh)


@MODELS.callable(f"{MESH}.get_rank")
def _rank_of_mesh(call: Call) -> Values:
    # The global rank, whichever part of a mesh is asked; one process is rank 0.
    known = Rank(RankKind.GLOBAL, RankSource.PROCESS_GROUP, place=call.place)
    return singleton(known if call.do.several_processes else Const(0))


@MODELS.callable(f"{MESH}.get_local_rank", f"{MESH}.get_coordinate")
def _place_in_mesh(call: Call) -> Values:
    # Along one dimension of a mesh ranks count anew: the first is several ranks, one in each row.
    divergence = Divergence.RANK if call.do.several_processes else Divergence.NONE
    term = MethodResult(call.receiver, call.name, (call.args, tuple(call.keywords.items())))
    return call.unknown(term, "the place of this rank in a mesh", divergence, escaped_from=f"{MESH}.{call.name}")


def is_of_cpus(do: LibraryContext, mesh: Values | None) -> bool:
    """Its devices are CPUs. A part of a mesh has the devices of the whole."""
    return mesh is not None and mesh.all(
        lambda each: any(do.flag(whole, MeshState.of_cpus) is not NO for whole in _wholes(each))
    )


def ranks_along(do: LibraryContext, mesh: Values | None) -> Values | None:
    """How many ranks there are in the part of a mesh that was taken by the name of one dimension; None where that is
    not known."""
    part = single_of(mesh)
    whole = next(_wholes(part), None)
    name = part.term.index if part is not None and isinstance(part.term, Item) else None
    if whole is None or name is None:
        return None
    shape = known_items(do, single_of(do.state(whole, MeshState.shape))) or ()
    names = known_items(do, single_of(do.state(whole, MeshState.names))) or ()
    return next((size for size, each in zip(shape, names, strict=False) if each.single == name), None)


def is_whole(mesh: Values | None) -> bool:
    """No dimension of it was taken."""
    one = single_of(mesh)
    return one is not None and one == next(_wholes(one), None)


def _wholes(mesh: Value | None) -> Iterator[Unknown]:
    """The mesh of which it is a part, or itself."""
    for each in provenance_of(mesh):
        if isinstance(each, Unknown) and each.escaped_from == MESH and isinstance(each.term, CallResult):
            yield each
