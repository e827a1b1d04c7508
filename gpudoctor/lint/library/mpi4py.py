"""mpi4py: a communicator's collectives, which all of its processes must call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind
from gpudoctor.lint.domain.symbols import CallResult
from gpudoctor.lint.domain.value import NONE, Unknown, Values
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.library_call import MODELS, Call, LibraryContext, singleton

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location

COLLECTIVES = frozenset("bcast gather allgather scatter reduce allreduce alltoall barrier".split())


@MODELS.callable("mpi4py.MPI.COMM_WORLD.*")
def _communicator(call: Call) -> Values:
    name = call.name.rpartition(".")[2]
    if name.lower() in COLLECTIVES:
        call.emit(Collective, call=name, by="mpi4py", subject=call.arg(0, "obj"), in_place=name[:1].isupper())
        return singleton(
            Unknown(
                CallResult(call.name, call.allocation_site()),
                "an object from all ranks",
                call.label,
                escaped_from=call.name,
            )
        )
    if name in ("Get_rank", "Get_size") and call.do.several_processes:
        rank = Rank(RankKind.GLOBAL, RankSource.SLURM, place=call.place)
        return singleton(rank if name == "Get_rank" else Size(SizeKind.WORLD, place=call.place))
    return singleton(NONE if name == "Barrier" else Unknown(CallResult(call.name, call.args), "from MPI", call.label))


@MODELS.name("mpi4py.MPI.COMM_WORLD.rank")
def _rank(do: LibraryContext, place: Location) -> Values:
    return singleton(Rank(RankKind.GLOBAL, RankSource.SLURM, place=place))


@MODELS.name("mpi4py.MPI.COMM_WORLD.size")
def _size(do: LibraryContext, place: Location) -> Values:
    return singleton(Size(SizeKind.WORLD, place=place))
