"""One rank of each node writes the same file, where one rank of the job should.

## What goes wrong

The local rank counts the processes of one machine (one node), so `local_rank == 0` holds once on each node. On one
machine that is rank 0. On several, each has a writer, and where they share a disk, as clusters do, all of them write
to one path at the same time: the file ends up corrupted (`PytorchStreamReader failed`, `storage has wrong size`). It is
a warning where a launch file or a framework is told of several machines, and advice where nothing says how many there
are.

## Fix

Test `dist.get_rank() == 0`. No fix where each node should keep a copy on a disk of its own.

## Silent when

The global rank or the node is tested as well; the path holds the rank or the name of the node, is a temporary one, or
is not known; the file holds no weights.

## Sources

NVIDIA/apex#886, https://docs.pytorch.org/docs/stable/elastic/run.html#definitions; run on two simulated nodes with
torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.acting_place import under_the_test
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.repair.snippets import asked_first
from gpudoctor.rule import Findings, Program, Recording, Rule

LOCAL_ZERO = "local rank 0"


class SaveGuardedByLocalRank(Rule):
    code = "GPU602"
    severity = Severity.WARNING
    advises_if_named = True
    needs = (Save,)

    def in_code(self, program: Program) -> Findings:
        # Trainers that own the saving ask for the right rank.
        if not program.launched_in_several or program.managed_by - program.leaving("saving"):
            return
        for save in program.events(Save):
            guards = save.rank_guards
            # Logs and pictures are often meant to be written by each node.
            if not save.checkpoint or save.collective or not guards:
                continue
            # A test on the global rank, wherever it stands, leaves one writer.
            if not all(map(_asks_the_local_rank, guards)) or not save.on_one_path or save.on_own_disk:
                continue
            place = under_the_test(save, guards)
            asked = guards[0].atom.place
            yield self.found(
                at=place,
                message=f"Local rank 0 of each node writes {save.path_shown()}: on several nodes with one disk they "
                "all write it at the same time.",
                remedy=f"Test the rank of the whole job instead: `if {asked_first(program, save)}:`.",
                because=[("the local rank is tested here", asked), ("and here it happens", save.location)],
                cause=asked,
                severity=None if _on_several_nodes(program) else Severity.INFO,
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.checkpoint._written import written_by_several

        for each in written_by_several(recording):
            if each.by_node:
                yield self.found(
                    each.at,
                    f"{recording.named(each.ranks)}, the first of each node, wrote `{each.path}` after step "
                    f"{each.step}: with one disk the file may end up corrupted.",
                    remedy="Test the rank of the whole job instead: `if dist.get_rank() == 0:`.",
                )

    def could_show(self, recording: Recording) -> bool:
        return len({rank.node for rank in recording.ranks}) > 1 and any(rank.saves for rank in recording.ranks)


def _on_several_nodes(program: Program) -> bool:
    told = (each.told("num_nodes") for each in program.in_charge)
    return program.started_on_nodes > 1 or any(isinstance(nodes, int) and nodes > 1 for nodes in told)


def _asks_the_local_rank(guard: Literal) -> bool:
    # With `mp.spawn` on one machine the index of a process is its rank, and is called so.
    if guard.atom.ranks and not guard.atom.every:
        return guard.holds and guard.atom.ranks == LOCAL_ZERO
    # `debug or local_rank == 0` and its kind are not understood.
    parts = guard.atom.every if guard.holds else ()
    on_rank = [part for part in parts if part.atom.divergence]
    return bool(on_rank) and all(map(_asks_the_local_rank, on_rank))
