"""A checkpoint is saved from the wrapper and loaded into the bare model, or the other way: its names do not fit.

## What goes wrong

DDP and DataParallel keep the model in an attribute called `module`, so every key of the wrapper's `state_dict()` begins
with `module.`. A model that is not wrapped has no such keys: `load_state_dict` ends with `RuntimeError: Error(s) in
loading state_dict for Net: Missing key(s) in state_dict: "weight" ... Unexpected key(s) in state_dict:
"module.weight"`. Weights that were saved from the inner model and are loaded into the wrapper end with the same error,
with the names exchanged. So does a target network that is handed the weights of the wrapper as they are. With
`strict=False` nothing is loaded and nothing is said: the weights stay random.

## Fix

Save the inner model, `model.module.state_dict()`, and load into it: `model.module.load_state_dict(...)`. Unsafe:
checkpoints that were written before keep the old keys. None where the program is launched in several ways, since
another of them may need the keys as they are.

## Silent when

The program does not load the file itself, nor one that the user names and that has the same entries; it loads what a
wrapper saved into a wrapped model, or strips the prefix; an option for which the wrapper is what is saved leaves that
model out; a framework saves and loads it, or another one than Accelerate and Ray is in charge.

## Sources

pytorch/pytorch#3805, bearpaw/pytorch-classification#27, JaidedAI/EasyOCR#1009,
https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.module import Module, StateDict, Wrapper, WrapperKind
from gpudoctor.lint.events.files import Load, LoadState, Save
from gpudoctor.lint.events.knowledge import Prepare
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.questions.names import in_code
from gpudoctor.lint.repair.repair import Always, Either, Holds, Repair, Replace, Source
from gpudoctor.rule import CrashText, Rule

if TYPE_CHECKING:
    from gpudoctor.api.pack import Condition, Program, Value


class WrapperPrefixInCheckpoint(Rule):
    """A checkpoint is saved from the wrapper and loaded into the bare model, or the other way: its names do not fit."""

    code = "GPU603"
    name = "wrapper-prefix-in-checkpoint"
    severity = Severity.WARNING
    errors = (
        'RuntimeError: Error(s) in loading state_dict for Net: Missing key(s) in state_dict: "weight". Unexpected '
        'key(s) in state_dict: "module.weight".',
    )
    stops = True
    fix_safety = Safety.UNSAFE
    shows_when = ("ended_well",)
    needs = (Save, LoadState)
    crash = CrashText(
        "Missing key(s) in state_dict",
        also="module.",
        because="the names of a wrapper begin with 'module.', and those of the model inside do not",
        remedy="Save `model.module.state_dict()`, and load it into the model inside, too.",
    )

    def in_code(self, program: Program) -> Iterator[Finding]:
        # Frameworks unwrap what they save, or strip the prefix when they load.
        if program.managed_by - program.leaving("states"):
            return
        yield from self._handed_over(program)
        for save in program.events(Save):
            for (entry, state), when in zip(save.states, save.states_when, strict=True):
                # A state whose keys were rewritten is none any more.
                if not isinstance(state, StateDict):
                    continue
                if not state.prefixed:
                    yield from self._saved_bare(program, save, entry, state, when)
                    continue
                use = _loaded_bare(program, save, entry, state.owner, when)
                # Saved from a wrapper and loaded into one, the names fit.
                if use is None:
                    continue
                yield self.found(
                    at=state.place,
                    message=f"The weights are saved from the wrapper `{state.owner.label or 'model'}`, so "
                    f"that every key begins with `module.`, and are loaded into a model without wrapper: {_end(use)}",
                    remedy=_remedy(program, state.owner),
                    because=[("it is written here", save.location), ("it is loaded here", use.location)],
                    # An error that stops the program is noticed; weights that silently stay random are not.
                    severity=Severity.ERROR if use.strict is False else None,
                    # Launched in another way, the same line may save what another wrapper loads.
                    repair=_unwrap(state.owner, state.place)
                    if len(program.worlds) < 2 and not program.frameworks
                    else None,
                )

    def _handed_over(self, program: Program) -> Iterator[Finding]:
        """`target.load_state_dict(model.state_dict())`, of a model that is wrapped, for one that is not."""
        for use in program.events(LoadState):
            state = use.taken[0] if len(use.taken) == 1 and not use.entry else None
            if state is None or not state.prefixed or not _bare(use) or _meets(program, use):
                continue
            wrapped = state.owner.place if isinstance(state.owner, Wrapper) else None
            yield self.found(
                at=use.location,
                message=f"The weights of the wrapper `{state.owner.label or 'model'}`, whose keys all begin with "
                f"`module.`, are loaded into a model without wrapper: {_end(use)}",
                remedy="Take those of the inner model: `.module.state_dict()`.",
                because=[("the model is wrapped here", wrapped)],
                severity=Severity.ERROR,
                repair=_unwrap(state.owner, state.place) if len(program.worlds) < 2 else None,
            )

    def _saved_bare(
        self, program: Program, save: Save, entry: str, state: StateDict, when: Condition
    ) -> Iterator[Finding]:
        """The weights of a model are loaded into the wrapper around it."""
        # Where it is not wrapped, its own weights are those of the checkpoint.
        if any(isinstance(other, StateDict) and other.prefixed for name, other in save.states if name == entry):
            return
        for use in _loads_of(program, save, entry, when):
            wrapper = use.target
            if isinstance(wrapper, Wrapper) and wrapper.core == state.owner and not _bare(use):
                yield self.found(
                    at=use.location,
                    message=f"The weights of the inner model are loaded into the wrapper `{wrapper.label or 'model'}`, "
                    f"whose keys all begin with `module.`: {_end(use)}",
                    remedy="Load them into the inner model: `.module.load_state_dict(...)`.",
                    because=[("it is written here", save.location), ("the wrapper is made here", wrapper.place)],
                    severity=Severity.ERROR if use.strict is False else None,
                    repair=_unwrap(wrapper, use.location) if len(program.worlds) < 2 else None,
                )
                return


def _remedy(program: Program, wrapper: Value) -> str:
    # Started for one process, what prepares models wraps none.
    prepared = next((each for each in program.events(Prepare) if each.made == wrapper), None)
    if prepared is None or prepared.managed.framework != "accelerate":
        return "Save the inner model: `.module.state_dict()`."
    inner = f"{in_code(prepared.managed, 'accelerator')}.unwrap_model({in_code(wrapper, 'model')})"
    return f"Save the inner model: `{inner}.state_dict()`."


def _unwrap(wrapper: Value, at: Location) -> Repair | None:
    if not isinstance(wrapper, Wrapper):
        return None
    # A name of the bare model is right with and without the wrapper.
    model = Either(((Holds(wrapper.inner),), (Always(wrapper.place), Source(at, "receiver"), ".module")))
    return Repair("Take the model inside", (Replace(at, (model,), part="receiver"),))


def _loaded_bare(program: Program, save: Save, entry: str, owner: Value, when: Condition) -> LoadState | None:
    """Where what is saved here is loaded into a model that is not wrapped."""
    # Wrapped on a GPU and bare on the CPU, it is what it was when it is loaded.
    wrapped = [wrap.condition for wrap in program.events(Wrap) if wrap.wrapper == owner]
    for use in _loads_of(program, save, entry, when):
        if _bare(use) and not any(each.excludes(use.condition) for each in wrapped) and not _meets(program, use):
            return use
    return None


def _loads_of(program: Program, save: Save, entry: str, when: Condition) -> Iterator[LoadState]:
    """Where what is saved there is loaded into a model. `when` is what has chosen what is saved."""
    loads = [load for load in program.events(Load) if save.is_of(load) or _same_entries(program, save, load)]
    # What a load gave may be unknown; None would then join any load with any save.
    results = {load.result for load in loads} - {None}
    for use in program.events(LoadState):
        # The entry must be the same: "model" and "ema" of one file may have been saved in different ways. One that is
        # saved with an option is not loaded without it.
        if use.loaded in results and use.entry == entry and not use.taken and not when.excludes(use.condition):
            yield use


def _meets(program: Program, use: LoadState) -> bool:
    """The same statement may load into a wrapper: then it does where one was saved, and the bare model is what it would
    be without. `model = build(checkpoint["args"])` wraps where the checkpoint says so."""
    beside = (each for each in program.events(LoadState) if each.location == use.location)
    return any(each.context.frames == use.context.frames and not _bare(each) for each in beside)


def _same_entries(program: Program, save: Save, load: Load) -> bool:
    """The user names a file of which this program reads what it saves: the model, and more, under the same names."""
    read = {use.entry for use in program.events(LoadState) if use.loaded == load.result}
    # One entry alone fits too many files, as pretrained weights from elsewhere.
    return load.user_names_path and len(read) > 1 and read <= {entry for entry, _ in save.states}


def _bare(use: LoadState) -> bool:
    target = use.target
    if isinstance(target, Wrapper):
        # FSDP and `torch.compile` have prefixes of their own, or none.
        return not target.wrapped_by(WrapperKind.DDP, WrapperKind.DATA_PARALLEL)
    return isinstance(target, Module) and not use.as_wrapper


def _end(use: LoadState) -> str:
    return (
        "no key fits, and no error is raised."
        if use.strict is False
        else "it ends with `Missing key(s) in state_dict`."
    )
