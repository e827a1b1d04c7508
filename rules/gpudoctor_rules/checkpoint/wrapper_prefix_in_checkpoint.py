"""A checkpoint is saved from the wrapper and loaded into the bare model, or the other way: its names do not fit.

## What goes wrong

DDP and DataParallel keep the model in an attribute called `module`, so every key of the wrapper's `state_dict()` begins
with `module.`. A model that is not wrapped has no such keys: `load_state_dict` ends with `RuntimeError: Error(s) in
loading state_dict for Net: Missing key(s) in state_dict: "weight" ... Unexpected key(s) in state_dict:
"module.weight"`. Weights that were saved from the inner model and are loaded into the wrapper end with the same error,
with the names exchanged. So does a target network that is handed the weights of the wrapper as they are.
`torch.compile(model)` keeps the model under `_orig_mod`, inside or outside of the wrapper, with the same end. With
`strict=False` nothing is loaded and nothing is said: the weights stay random.

## Fix

Save the inner model, `model.module.state_dict()`, and load into it: `model.module.load_state_dict(...)`. Compile in
place, with `model.compile()`: then the keys stay as they are. Unsafe: checkpoints that were written before keep the old
keys. None where the program is launched in several ways, since another of them may need the keys as they are.

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

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.domain.module import Module, StateDict, Wrapper, WrapperKind
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.files import Load, LoadState, Save
from gpudoctor.lint.events.knowledge import Prepare
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.questions.names import in_code
from gpudoctor.lint.repair.repair import Repair
from gpudoctor.lint.repair.snippets import model_inside
from gpudoctor.rule import CrashText, Findings, Program, Rule

_IN_PLACE = "Compile in place, with `model.compile()`, which leaves the keys as they are."


class WrapperPrefixInCheckpoint(Rule):
    code = "GPU603"
    severity = Severity.WARNING
    errors = (
        'RuntimeError: Error(s) in loading state_dict for Net: Missing key(s) in state_dict: "weight". Unexpected '
        'key(s) in state_dict: "module.weight".',
    )
    fix_safety = Safety.UNSAFE
    shows_when = ("ended_well",)
    needs = (Save, LoadState)
    crash = (
        CrashText(
            "Missing key(s) in state_dict",
            also="module.",
            because="the names of a wrapper begin with 'module.', and those of the model inside do not",
            remedy="Save `model.module.state_dict()`, and load it into the model inside, too.",
        ),
        CrashText(
            "Missing key(s) in state_dict",
            also=WrapperKind.COMPILED.key_prefix,
            because="the names of a compiled model begin with '_orig_mod.', and those of the model inside do not",
            remedy=_IN_PLACE,
        ),
    )

    def in_code(self, program: Program) -> Findings:
        # Frameworks unwrap what they save, or strip the prefix when they load.
        if program.managed_by - program.leaving("states"):
            return
        yield from self._handed_over(program)
        for save in program.events(Save):
            for (entry, state), when in zip(save.states, save.states_when, strict=True):
                # A state whose keys were rewritten is none any more.
                if not isinstance(state, StateDict):
                    continue
                if not state.prefix:
                    yield from self._saved_bare(program, save, entry, state, when)
                    continue
                use = _loaded_otherwise(program, save, entry, state, when)
                # Saved from a wrapper and loaded into one, the names fit.
                if use is None:
                    continue
                yield self.found(
                    at=state.place,
                    message=f"The weights are saved from the wrapper `{state.owner.label or 'model'}`, so "
                    f"that every key begins with `{state.prefix}`, and are loaded into a model {_names_of(use)}: "
                    f"{_end(use)}",
                    remedy=_remedy(program, state, use),
                    because=[("it is written here", save.location), ("it is loaded here", use.location)],
                    # An error that stops the program is noticed; weights that silently stay random are not.
                    severity=Severity.ERROR if use.strict is False else None,
                    # One of several models may be saved, as the average of its weights or itself.
                    needs=tuple(when.difference(save.condition)),
                    # Launched in another way, the same line may save what another wrapper loads.
                    repair=_unwrap(state.owner, state.place)
                    if len(program.worlds) < 2 and not program.frameworks and state.prefix == "module."
                    else None,
                )

    def _handed_over(self, program: Program) -> Findings:
        """`target.load_state_dict(model.state_dict())`, of a model that is wrapped, for one that is not."""
        for use in program.events(LoadState):
            state = use.taken[0] if len(use.taken) == 1 and not use.entry else None
            if state is None or not state.prefix or _prefix_of(use) in (None, state.prefix):
                continue
            if _meets(program, use, state):
                continue
            wrapped = state.owner.place if isinstance(state.owner, Wrapper) else None
            inner = (state.prefix, _prefix_of(use)) == ("module.", "")
            yield self.found(
                at=use.location,
                message=f"The weights of the wrapper `{state.owner.label or 'model'}`, whose keys all begin with "
                f"`{state.prefix}`, are loaded into a model {_names_of(use)}: {_end(use)}",
                remedy="Take those of the inner model: `.module.state_dict()`." if inner else _IN_PLACE,
                because=[("the model is wrapped here", wrapped)],
                severity=Severity.ERROR,
                repair=_unwrap(state.owner, state.place) if inner and len(program.worlds) < 2 else None,
            )

    def _saved_bare(self, program: Program, save: Save, entry: str, state: StateDict, when: Condition) -> Findings:
        """The weights of a model are loaded into the wrapper around it."""
        # Where it is not wrapped, its own weights are those of the checkpoint.
        if any(isinstance(other, StateDict) and other.prefix for name, other in save.states if name == entry):
            return
        for use in _loads_of(program, save, entry, when):
            wrapper = use.target
            if isinstance(wrapper, Wrapper) and wrapper.core == state.owner and _prefix_of(use):
                yield self.found(
                    at=use.location,
                    message=f"The weights of the inner model are loaded into the wrapper `{wrapper.label or 'model'}`, "
                    f"whose keys all begin with `{wrapper.key_prefix}`: {_end(use)}",
                    remedy="Load them into the inner model: `.module.load_state_dict(...)`."
                    if wrapper.key_prefix == "module."
                    else _IN_PLACE,
                    because=[("it is written here", save.location), ("the wrapper is made here", wrapper.place)],
                    severity=Severity.ERROR if use.strict is False else None,
                    repair=_unwrap(wrapper, use.location)
                    if len(program.worlds) < 2 and wrapper.key_prefix == "module."
                    else None,
                )
                return


def _remedy(program: Program, state: StateDict, use: LoadState) -> str:
    if any(kept not in (None, "", "module.") for kept in (state.prefix, _prefix_of(use))):
        return _IN_PLACE
    wrapper = state.owner
    # Started for one process, what prepares models wraps none.
    prepared = next((each for each in program.events(Prepare) if each.made == wrapper), None)
    if prepared is None or prepared.managed.framework != "accelerate":
        return "Save the inner model: `.module.state_dict()`."
    inner = f"{in_code(prepared.managed, 'accelerator')}.unwrap_model({in_code(wrapper, 'model')})"
    return f"Save the inner model: `{inner}.state_dict()`."


def _unwrap(wrapper: Value, at: Location) -> Repair | None:
    if not isinstance(wrapper, Wrapper):
        return None
    return Repair("Take the model inside", (model_inside(wrapper, at, "receiver"),))


def _loaded_otherwise(program: Program, save: Save, entry: str, state: StateDict, when: Condition) -> LoadState | None:
    """Where what is saved here is loaded into a model whose keys begin with something else."""
    # Wrapped on a GPU and bare on the CPU, it is what it was when it is loaded.
    wrapped = [wrap.condition for wrap in program.events(Wrap) if wrap.wrapper == state.owner]
    for use in _loads_of(program, save, entry, when):
        other = _prefix_of(use) not in (None, state.prefix)
        if other and not any(each.excludes(use.condition) for each in wrapped) and not _meets(program, use, state):
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


def _meets(program: Program, use: LoadState, state: StateDict) -> bool:
    """The same statement may load into such a wrapper: then it does where one was saved, and the bare model is what it
    would be without. `model = build(checkpoint["args"])` wraps where the checkpoint says so."""
    beside = (each for each in program.events(LoadState) if each.location == use.location)
    return any(each.context.frames == use.context.frames and _prefix_of(each) == state.prefix for each in beside)


def _same_entries(program: Program, save: Save, load: Load) -> bool:
    """The user names a file of which this program reads what it saves: the model, and more, under the same names."""
    of_training = (Module, Wrapper, Optimizer)
    loads = (use for use in program.events(LoadState) if use.loaded == load.result)
    read = {use.entry for use in loads if isinstance(use.target, of_training)}
    # One entry alone fits too many files, as pretrained weights from elsewhere.
    return load.user_names_path and len(read) > 1 and read <= {entry for entry, _ in save.states}


def _prefix_of(use: LoadState) -> str | None:
    """What the keys begin with that are loaded there; None where that is not known."""
    target = use.target
    if isinstance(target, Wrapper):
        return target.key_prefix
    return ("module." if use.as_wrapper else "") if isinstance(target, Module) else None


def _names_of(use: LoadState) -> str:
    prefix = _prefix_of(use)
    return f"whose keys begin with `{prefix}`" if prefix else "without wrapper"


def _end(use: LoadState) -> str:
    return (
        "no key fits, and no error is raised."
        if use.strict is False
        else "it ends with `Missing key(s) in state_dict`."
    )
