"""How ranks come to their GPUs: by a number, by `set_device`, by what the process sees, or by nobody's choice."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.rank import Rank, RankSource
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.placement import CudaStarted, DeviceUsed, Move
from gpudoctor.lint.events.process import EnvironmentWrite, InitGroup, Spawn
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.devices_compared import current_gpu, device_choices
from gpudoctor.lint.questions.users_choice import by_choice
from gpudoctor.lint.repair.repair import Code, Imported
from gpudoctor.lint.repair.snippets import own_gpu
from gpudoctor.rule import Program

VISIBLE = "CUDA_VISIBLE_DEVICES"


def choose_own(program: Program) -> tuple[Code, ...]:
    """The lines with which a rank takes its own GPU."""
    own = own_gpu(spawned=lacks_variable(program))
    choose: Code = (Imported("torch.cuda.set_device"), "(", own, ")")
    # Where it asks for a GPU, it also runs where there is none to choose.
    if any(event.call == "torch.cuda.is_available" for event in program.events(CudaStarted)):
        return ("if ", Imported("torch.cuda.is_available"), "():"), ("    ", *choose)
    return (choose,)


def lacks_variable(program: Program) -> bool:
    """No launcher tells the ranks their number in `LOCAL_RANK`."""
    return program.spawned or bool(program.frameworks)


def by_all(program: Program, event: Event) -> bool:
    """All ranks get here, and it is not one branch of a choice whose other branch gives each rank its own GPU."""
    if not program.by_every_rank(event):
        return False
    # `if gpu is None: model.cuda() else: model.cuda(gpu)` is the ImageNet example: its ranks take the other branch.
    return not any(each.excludes(event.condition) for each in program.on_own_gpu)


def _own(device: Value) -> bool:
    return bool(device.divergence & Divergence.RANK)


def on_own_gpus(program: Program) -> list[Wrap]:
    """Where models are wrapped that are on a GPU of each rank after all."""
    # DDP needs the model on the GPU of its rank at this moment, so this is where it lives for good.
    wraps = (wrap for wrap in program.events(Wrap) if not wrap.is_data_parallel)
    return [wrap for wrap in wraps if _lives_on_own(program, wrap)]


def _lives_on_own(program: Program, wrap: Wrap) -> bool:
    if wrap.model_device is not None:
        return wrap.model_device.all(lambda device: _own(device) or _is_chosen_own(program, wrap, device))
    # Where it is not known, `device_ids` says where it must be.
    return any(each is not None and _own(each) for each in wrap.ids or ())


def _is_chosen_own(program: Program, wrap: Wrap, device: Value) -> bool:
    """`cuda` of a rank that has made its own GPU the current one before, whatever else was chosen on the way."""
    if not current_gpu(device):
        return False
    before = [each for each in device_choices(program) if each.order < wrap.order and each.purpose == "set_device"]
    return bool(before) and all(_own(each.device) for each in before)


def may_have_chosen(program: Program, event: Event) -> bool:
    """Some call makes the current device that of the rank, or may have done so before where it could not be read."""
    # Code that could not be read may be a library's set-up, which calls `set_device` as a rule.
    if any(escape.order < event.order for escape in _unread(program)):
        return True
    # Wherever it stands: the order of calls in other files is not always known.
    return bool(device_choices(program)) or any(init.binds_device for init in program.events(InitGroup))


def _unread(program: Program) -> Iterator[Escape]:
    """What may set a rank up, as any code may until the program has made the group itself. What the parent of the
    ranks does leaves their own choice open."""
    group = next((each.order for each in program.events(InitGroup)), None)
    found = (each for each in program.events(Escape) if each.may_choose_gpu or group is None or each.order < group)
    return (escape for escape in found if not program.by_one_process(escape))


def overruled(program: Program, choice: DeviceUsed) -> bool:
    """Each rank makes its own GPU the current one behind this choice, and nothing is put on a GPU in between."""
    for event in program.events(DeviceUsed, Move):
        if event.order <= choice.order or event.condition.excludes(choice.condition):
            continue
        if not isinstance(event, DeviceUsed) or event.purpose != "set_device":
            return False
        if _own(event.device):
            return program.by_every_rank(event)
    return False


def may_have_chosen_before(program: Program, event: Event) -> bool:
    """As above, at the moment of the event: a choice that comes later does not count."""
    # A set-up that could not be read stands before the model is wrapped on the GPU of its rank, not in the training.
    wrapped = min((wrap.order for wrap in on_own_gpus(program)), default=event.order)
    if any(escape.order < min(event.order, wrapped) for escape in _unread(program)):
        return True
    before = any(
        used.order < event.order and not used.condition.excludes(event.condition) for used in device_choices(program)
    )
    return before or any(init.binds_device for init in program.events(InitGroup))


def shown_to_all(program: Program) -> EnvironmentWrite | None:
    """Where the program says that a process sees one GPU, and all its ranks the same one."""
    writes = [write for write in program.events(EnvironmentWrite) if write.name == VISIBLE]
    # Who starts the ranks itself, counts the GPUs that it sees.
    if program.spawned or not writes or not all(write.surely(str.isdecimal) for write in writes):
        return None
    # What is set when somebody has asked for the GPUs comes too late, which another rule says.
    asked: list[Event] = [*program.events(CudaStarted), *program.events(DeviceUsed)]
    write = writes[0]
    if not any(each.order > write.order for each in asked) or any(each.order < write.order for each in asked):
        return None
    chosen = by_choice(program, write, handed_on=True)
    return write if program.by_every_rank(write) and not chosen else None


def one_visible(program: Program) -> bool:
    """The program says which GPUs a process sees, other than by a list that is the same for all."""
    writes = (write for write in program.events(EnvironmentWrite) if write.name == VISIBLE)
    # With one visible GPU, `cuda:0` is the own GPU of each rank.
    # A list of several GPUs narrows nothing to one process; one that is not known may.
    return any(not write.surely(lambda gpus: "," in gpus) and not _by_parent(program, write) for write in writes)


def _by_parent(program: Program, write: EnvironmentWrite) -> bool:
    """What the parent says, all workers that it starts take over; Ray tells each of them itself."""
    told_apart = any(spawn.location == write.location for spawn in program.events(Spawn))
    return bool(program.spawned) and program.by_one_process(write) and not told_apart


def sees_own(program: Program) -> bool:
    """Each rank lets itself see other GPUs than the next one: what is called `cuda:0` is its own."""
    writes = [write for write in program.events(EnvironmentWrite) if write.name == VISIBLE]
    # Where each process is told its rank by an option, an option says which GPU it has, too.
    ranks = [init.told_rank for init in program.events(InitGroup)]
    by_options = any(isinstance(each, Rank) and each.source is RankSource.ARGUMENT for each in ranks)
    return any(write.value.any(_own) or (by_options and not write.surely(str.isdecimal)) for write in writes)


def started_by_hand(program: Program) -> bool:
    """The program writes down which rank it is: another rank is a copy of it with another number, on its own node."""
    writes = (write for write in program.events(EnvironmentWrite) if write.name == "RANK")
    return any(program.by_every_rank(write) and write.surely(lambda text: True) for write in writes)
