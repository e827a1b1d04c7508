"""Ray: functions and objects that other processes run. What they do is done where the program asks for it."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import NO, PROCESS, YES, ClassState, ProcessState
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Library
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.value import NONE, Anonymous, Values
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import EnvironmentWrite, InitGroup, Spawn
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, OptimizerStep
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, singleton
from gpudoctor.lint.library.process_launchers import called
from gpudoctor.record import replace

_REMOTE = "ray.remote"
_ASKED = ("remote", "options")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_TRAINS = (Backward, Collective, InitGroup, MakeOptimizer, OptimizerStep, Spawn, UseManaged, Wrap)
_BEFORE_TRAINING = 1_000
"""Statements in which a process that trains shows that it does."""


@MODELS.decorator(_REMOTE)
def _made_remote(call: Call) -> Values:
    """`Worker.remote()` makes an object in a process of its own, and `work.remote()` runs a function in one."""
    only = call.args[0].single
    if isinstance(only, Function) and _REMOTE not in only.decorators:
        return singleton(replace(only, decorators=(*only.decorators, _REMOTE)))
    if isinstance(only, Class):
        for name in _ASKED:
            call.do.set_own_attribute(only.scope, name, singleton(BoundMethod(only, Library(f"{_REMOTE}.{name}"))))
    return call.args[0]


@MODELS.callable(_REMOTE)
def _remote(call: Call) -> Values:
    """`ray.remote(Worker)`, `ray.remote(num_gpus=1)(Worker)`."""
    return _made_remote(call) if call.args else singleton(Library(_REMOTE))


@MODELS.callable(f"{_REMOTE}.remote")
def _asked_for(call: Call) -> Values:
    if not call.args:
        return NOT_ANSWERED
    loops, made = call.do.execution.open_loops, call.args[0].single
    actor = made if isinstance(made, Class) else None
    # The object of a later round begins in a process of its own, which is like that of the first.
    if actor and loops and loops[-1].event.pass_ > 0 and (first := call.do.state(actor, ClassState.first_actor)):
        return first
    if any(isinstance(value, Rank) for value in call.all_values()):
        if actor:
            call.do.set_flag(actor, ClassState.actors_are_ranks)
        _note_start(call)
        # Ray shows each of them the GPUs that it was given, and no others.
        own = singleton(Rank(RankKind.LOCAL, RankSource.SPAWN_INDEX, as_text=True, place=call.place))
        call.emit(EnvironmentWrite, name=_VISIBLE, value=own)
        call.do.set_entry(PROCESS, ProcessState.environment, _VISIBLE, own)
    elif not actor:
        return _asked_of_one(call)
    answer = call.do.call(call.args[0], call.arguments.without_first(), call.node)
    if actor:
        call.do.set_state(actor, ClassState.first_actor, answer)
    return answer


def _note_start(call: Call) -> None:
    """What is called here is done by each of the ranks, in its own process."""
    call.emit(Spawn, target=called(call.args[0]), start_method="remote", by=_REMOTE)


@MODELS.callable(f"{_REMOTE}.call")
def _asked_of_rank(call: Call) -> Values:
    if not call.args:
        return NOT_ANSWERED
    _note_start(call)
    return call.do.call(call.args[0], call.arguments.without_first(), call.node)


@MODELS.callable(f"{_REMOTE}.ask")
def _asked_of_one(call: Call) -> Values:
    """A process of its own does it, which is no rank: what it does all day, as to collect what others train on, is not
    followed."""
    if not call.args:
        return NOT_ANSWERED
    work, given = call.args[0], call.arguments.without_first()
    with call.do.execution.speculative(_BEFORE_TRAINING) as run:
        call.do.call(work, given, call.node)
    if run.whole or any(isinstance(each, _TRAINS) for each in run.events):
        return call.do.call(work, given, call.node)
    return call.unknown(Anonymous("process", call.place), "what another process returns", escaped_from=_REMOTE)


MODELS.callable(f"{_REMOTE}.options", "ray.get")(lambda call: call.args[0] if call.args else NOT_ANSWERED)


@MODELS.attribute(BoundMethod, "remote")
def _method(call: Call[BoundMethod]) -> Values:
    """`worker.step.remote(batch)` of an object that is made so."""
    owner = getattr(call.receiver.receiver, "cls", None)
    if not isinstance(owner, Class) or call.do.own_attribute(owner.scope, "remote") is None:
        return NOT_ANSWERED
    ranks = call.do.flag(owner, ClassState.actors_are_ranks) is YES
    return singleton(BoundMethod(call.receiver, Library(f"{_REMOTE}.{'call' if ranks else 'ask'}")))


@MODELS.attribute(Function, *_ASKED)
def _function(call: Call[Function]) -> Values:
    if _REMOTE not in call.receiver.decorators:
        return NOT_ANSWERED
    return singleton(BoundMethod(call.receiver, Library(f"{_REMOTE}.{call.name}")))


@MODELS.callable("ray.init")
def _begun(call: Call) -> Values:
    """The program is the driver: whatever trains is started by it, and it runs once. A rank of a group has workers of
    its own for something else, as for the environments of an agent."""
    if call.do.flag(PROCESS, ProcessState.group) is NO:
        call.do.launch.start_ranks()
    return singleton(NONE)
